"""What a check finds. A check is a function from what is looked at to findings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from shunter.config import LoadedConfig


@dataclass(frozen=True)
class Finding:
    """One fact about a machine.

    `bad` keeps a cluster from running, `poor` makes it worse than it could be; `mend` says what to
    do.
    """

    subject: str
    state: Literal["good", "poor", "bad"]
    what: str
    mend: str = ""


@dataclass(frozen=True)
class Looked:
    """What is looked at: this machine, with the config it is to run, if there is one."""

    loaded: "LoadedConfig | None" = None
    note: Callable[[str], None] = lambda text: None


Check = Callable[[Looked], Iterator[Finding]]
