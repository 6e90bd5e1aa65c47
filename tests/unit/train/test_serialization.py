"""What a checkpoint holds is read again as it was, or refused before it is called saved."""

import collections
import datetime as dt
import decimal
import enum
import functools
import io
import json
import pathlib
import pickle
import sys
import types
import typing
import zipfile
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from shunter.train import serialization
from tests.unit.train.toy import Supervisor, run_of


class Colour(enum.Enum):
    RED = 1


class Point(typing.NamedTuple):
    x: int


class Own:
    """An object of the script's own, which a checkpoint does not make."""


PLAIN: dict[str, object] = {
    "keys that are numbers": {1: "a", 2: "b"},
    "tuple": (1, (2, 3)),
    "bytes": b"\x00\xff",
    "set": {3, 1},
    "defaultdict": collections.defaultdict(list, {"a": [1]}),
    "deque": collections.deque([1, 2], 3),
    "path": pathlib.Path("a") / "b",
    "enum": Colour.RED,
    "named tuple": Point(3),
    "datetime": dt.datetime(2026, 11, 28, tzinfo=dt.UTC),
    "namespace": Namespace(lr=0.1),
    "simple namespace": types.SimpleNamespace(lr=0.1),
    "slice": slice(1, 2),
    "decimal": decimal.Decimal("0.1"),
    "complex": 1 + 2j,
    "not a number": [float("inf"), -0.0],
}
TORCH = pytest.param("with torch", marks=pytest.mark.live)


@pytest.fixture(params=["without torch", TORCH])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a state goes, with torch loaded or without it."""
    if request.param == "without torch":
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    else:
        pytest.importorskip("torch", reason="torch is not installed: make live does it")
    return tmp_path / "rank-0.state"


def through(file: Path, state: object) -> Any:
    size = serialization.write(file, {"parts": {"part": state}})
    assert file.stat().st_size == size
    return serialization.read(file)["parts"]["part"]


@pytest.mark.parametrize("name", list(PLAIN))
def test_value_of_python_is_read_as_it_was_written(file: Path, name: str) -> None:
    found = through(file, PLAIN[name])
    assert type(found) is type(PLAIN[name])
    assert found == PLAIN[name]


def test_partial_of_a_readable_class_is_read_as_it_was_written(file: Path) -> None:
    found = through(file, functools.partial(int, "7"))
    assert found() == 7


@pytest.mark.parametrize(
    "expression",
    [
        "np.cos(1.0)",
        "np.float32(0.1)",
        "np.logspace(-4, -2, 5)",
        "np.asfortranarray(np.ones((2, 3)))",
        "np.array(['a', 'bc'])",
        "np.array([1, 'a'], dtype=object)",
        "np.datetime64('2026-11-28')",
        "np.dtype('f4')",
        "np.float32",
    ],
)
def test_value_of_numpy_is_read_as_it_was_written(file: Path, expression: str) -> None:
    value = eval(expression, {"np": np})  # noqa: S307  one of the lines above
    found = through(file, value)
    assert type(found) is type(value)
    assert pickle.dumps(found) == pickle.dumps(value)


def test_chance_of_numpy_is_read_as_it_was_written(file: Path) -> None:
    kept: Any = np.random.get_state()
    generators = [
        np.random.Generator(getattr(np.random, name)(7))
        for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    ]
    read, found = through(file, (kept, generators))
    assert (read[0], list(read[1]), *read[2:]) == (kept[0], list(kept[1]), *kept[2:])
    assert [each.random() for each in found] == [each.random() for each in generators]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Own(), "a tests.unit.train.test_serialization.Own"),
        (lambda: 0, "lambda"),
        (functools.partial(print), "a builtins.print"),
        (sys.stdout, "cannot pickle|cannot serialize"),
        (Own, "a tests.unit.train.test_serialization.Own"),
    ],
)
def test_what_could_not_be_read_is_refused_with_its_place(
    file: Path, value: object, named: str
) -> None:
    with pytest.raises(TypeError, match=named) as refused:
        through(file, {"a": 1, "list": [0, value]})
    assert str(refused.value).startswith("['parts']['part']['list'][1] cannot be read")
    assert not file.exists()


def test_nothing_that_a_file_names_is_run(file: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (file.with_name("ran").touch, ())

    file.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(pickle.UnpicklingError):
        serialization.read(file)
    assert not file.with_name("ran").exists()


def test_file_of_before_is_read(file: Path) -> None:
    file.write_text(json.dumps({"step": 3}))
    assert serialization.read(file) == {"step": 3}


def test_checkpoint_that_could_not_be_read_is_told_as_failed_and_the_one_before_is_kept(
    tmp_path: Path,
) -> None:
    class Part:
        state: object = 1

        def state_dict(self) -> object:
            return self.state

        def load_state_dict(self, state: object) -> None:
            self.state = state

    part: Any = Part()
    with Supervisor(tmp_path / "attempt") as supervisor:
        run = run_of(supervisor, tmp_path / "checkpoints", part)
        run.steps_done = 3
        run.save()
        part.state = {"config": Own()}
        supervisor.ask()
        run.step()
        (failed,) = supervisor.told("failed")
        assert "['parts']['model']['config'] cannot be read" in failed["error"]
        assert [each["step"] for each in supervisor.told("saved")] == [3]
    resumed: Any = Part()
    assert run_of(None, tmp_path / "checkpoints", resumed, 2).steps_done == 3


def safetensors(content: bytes) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}).encode()
    return len(header).to_bytes(8, "little") + header + content


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b'{"step": 3}'),
        ("model.safetensors", safetensors(b"x" * 9)),
        ("notes.txt", b"PK"),
    ],
)
def test_file_of_a_trainer_that_is_whole_is_not_refused(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    serialization.check_file(tmp_path / name)
    serialization.check_file(tmp_path / "absent.json")
    serialization.check_file(tmp_path)


def archived() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data/0", b"x" * 99)
    return file.getvalue()


@pytest.mark.parametrize("kept", [0, 4, 20])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b'{"step": 3, "rate": [0.1, 0.2]}'),
        ("model.safetensors", safetensors(b"x" * 9)),
        ("optimizer.pt", archived()),
    ],
)
def test_file_of_a_trainer_that_is_cut_off_is_refused(
    tmp_path: Path, name: str, content: bytes, kept: int
) -> None:
    (tmp_path / name).write_bytes(content[: kept or -3])
    with pytest.raises(OSError, match="cut off"):
        serialization.check_file(tmp_path / name)
