"""Records of state and memory are rows as well: mappings in order, derived fields rebuilt."""

from dataclasses import dataclass, field

import pytest

from shunter.errors import IllegalEventError
from shunter.events import (
    DERIVED,
    JobId,
    Reason,
    decode_record,
    decoder_of,
    encode_record,
    encoder_of,
)


@dataclass(slots=True)
class Inner:
    name: str
    weight: float = 1.0


@dataclass(slots=True)
class Memory:
    jobs: dict[JobId, Inner]
    order: list[JobId]
    pairs: tuple[tuple[int, Reason], ...] = ()
    newest: Inner | None = None
    counts: dict[str, int] = field(default_factory=dict)
    total: float = field(default=0.0, init=False, metadata=DERIVED)

    def restored(self) -> None:
        self.total = sum(inner.weight for inner in self.jobs.values())


def test_record_comes_back_with_its_derived_fields() -> None:
    memory = Memory({JobId("b"): Inner("x", 2.0), JobId("a"): Inner("y")}, [JobId("b")])
    memory.restored()
    assert encode_record(memory) == b'[[["b",["x",2.0]],["a",["y"]]],["b"]]'
    again = decode_record(Memory, encode_record(memory))
    assert again == memory
    assert list(again.jobs) == ["b", "a"]
    assert again.total == 3.0


def test_optional_and_nested_fields_come_back() -> None:
    memory = Memory({}, [], ((1, Reason.quota),), Inner("z"), {"k": 1})
    assert decode_record(Memory, encode_record(memory)) == memory


def test_row_that_is_too_wide_is_of_a_newer_version() -> None:
    with pytest.raises(IllegalEventError, match="newer version"):
        decode_record(Inner, b'["x",1.0,2]')
    with pytest.raises(IllegalEventError, match="newer version"):
        decode_record(Memory, b"[[],[],[],null,[],0.0]")


@pytest.mark.parametrize("hint", [object, Inner | Memory, complex])
def test_type_without_an_encoding_is_refused_when_it_is_met(hint: object) -> None:
    for of in (encoder_of, decoder_of):
        with pytest.raises(TypeError):
            of(hint)
