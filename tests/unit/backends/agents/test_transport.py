"""What a verb prints is held to a bound, whatever runs in its place on a host."""

import json

import pytest

from shunter.backends.live import ANSWER_BYTES_MOST, run_verb
from shunter.backends.node import an_object
from shunter.errors import BackendError

pytestmark = pytest.mark.asyncio


class Printing:
    """A link to a host, and the program that is begun there: it prints an answer, or the same
    noise for ever.
    """

    def __init__(self, answer: object = None) -> None:
        self.read_bytes = 0
        self.is_closed = False
        self._answer = answer
        self._left = b""

    async def begin(self, _verb: str, *words: str) -> "Printing":
        if self._answer is not None:
            self._left = f"Welcome\n{words[-1]} {json.dumps(self._answer)}\n".encode()
        return self

    async def begin_session(self, folder: str) -> tuple["Printing", str]:
        raise NotImplementedError(folder)

    async def read(self, most: int) -> bytes:
        piece, self._left = self._left[:most], self._left[most:]
        if self._answer is None:
            piece = b"y" * most
        self.read_bytes += len(piece)
        return piece

    async def write(self, content: bytes) -> None:
        raise NotImplementedError(content)

    async def end_input(self) -> None:
        pass

    async def complaint(self) -> bytes:
        return b""

    async def status(self) -> int | None:
        return 0

    async def aclose(self) -> None:
        self.is_closed = True


async def test_answer_is_found_behind_what_a_shell_prints() -> None:
    told = {"old": ["j1"] * 10_000}
    assert await run_verb(Printing(told), "n0", ["ages"], limit_s=60, shape=an_object) == told


async def test_program_that_prints_without_end_is_ended_once_it_has_printed_too_much() -> None:
    printing = Printing()
    with pytest.raises(BackendError, match="host n0: the answer to 'ages' has more than 4,194,304"):
        await run_verb(printing, "n0", ["ages"], limit_s=60, shape=an_object)
    assert printing.is_closed
    assert ANSWER_BYTES_MOST < printing.read_bytes <= ANSWER_BYTES_MOST + (1 << 18)
