"""How the GPUs of a host are wired, as its agent tells it: typed and bounded like its records."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from shunter.backends.agents.answers import ERROR_CHARACTERS
from shunter.backends.agents.attempt_records import Cpus, Whole
from shunter.backends.node.messages import WrongMessageError, cleaned

GPUS_MOST = 1024
Word = Annotated[str, Meta(pattern=r"\A[A-Z0-9]{0,8}\Z")]
Row = Annotated[tuple[Word, ...], Meta(max_length=GPUS_MOST)]
Rows = Annotated[tuple[Row, ...], Meta(max_length=GPUS_MOST)]


class GpuWiring(Struct, frozen=True, kw_only=True):
    """A GPU, its socket (None if nobody knows), and the CPUs near to it."""

    index: Whole
    uuid: Annotated[str, Meta(max_length=128)]
    socket: Whole | None = None
    cpus: Cpus = ()


class Wiring(Struct, frozen=True, kw_only=True):
    """The wiring of a host: see `shunter.backends.node.host.wiring.Wiring`."""

    gpus: Annotated[tuple[GpuWiring, ...], Meta(max_length=GPUS_MOST)] = ()
    pci: Rows = ()
    links: Rows = ()
    by: Annotated[str, Meta(max_length=32)] = ""
    cause: str = ""
    cpus: Cpus = ()

    def __post_init__(self) -> None:
        """Refuse tables of another size; keep the cause to what can be told."""
        size = len(self.gpus)
        for rows in (self.pci, self.links):
            if rows and (len(rows) != size or any(len(row) != size for row in rows)):
                raise ValueError(f"a table is not of {size} GPUs")
        force_setattr(self, "cause", cleaned(self.cause, ERROR_CHARACTERS))


def wiring_in(value: object) -> Wiring:
    """Return the wiring that an agent told.

    Raises:
        WrongMessageError: it is none.
    """
    try:
        return msgspec.convert(value, Wiring)
    except msgspec.ValidationError as error:
        raise WrongMessageError(str(error)) from error
