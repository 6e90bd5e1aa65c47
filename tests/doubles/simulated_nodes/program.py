"""What a simulated job does: it travels as its command, so a log knows all that is simulated."""

from typing import Literal

import msgspec
from msgspec import Struct

__all__ = ["SimulatedProgram"]

WORD = "simulated-program"


class SimulatedProgram(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program that works for so long, saves when it is told to leave, and exits.

    Times are microseconds. It works `start_us` after its start, from its last checkpoint on; each
    of its ranks does all of `work_us`. `heeds` is the weakest means that makes it leave: the file
    that asks for it, the signal, SIGTERM (of which it dies without saving), or nothing but SIGKILL.
    `checkpoint_us` is how much work lies between checkpoints that it makes by itself (0: it makes
    none). `dies_us` is how long the kernel takes to end it once it is killed. One that `tells` says
    what it does through the channel of its supervisor, as one with the training SDK.
    """

    work_us: int
    exit_code: int = 0
    start_us: int = 0
    save_us: int = 0
    checkpoint_us: int = 0
    dies_us: int = 0
    step_us: int = 1_000_000
    heeds: Literal["request", "signal", "term", "nothing"] = "request"
    tells: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        """The command that a job is submitted with."""
        return WORD, msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, argv: tuple[str, ...]) -> "SimulatedProgram":
        """Return the program that a command names.

        Raises:
            ValueError: it names none.
        """
        if len(argv) != 2 or argv[0] != WORD:
            raise ValueError(f"the command {argv[:1]} is no {WORD}: use SimulatedProgram.command")
        return msgspec.json.decode(argv[1], type=cls)
