"""Proposals of gangs: what a caller sends, what it is answered, and the view it looks into."""

from typing import Annotated

from pydantic import Field

from shunter.api.models.model import Document, Instant, Model, Name
from shunter.api.models.submission import Id
from shunter.events.values import Level

CANDIDATES_MOST = 64
SERVERS_MOST = 4096

Mask = Annotated[int, Field(ge=1, lt=2**63)]
Masks = Annotated[dict[Name, Mask], Field(min_length=1, max_length=SERVERS_MOST)]
"""By server, the mask of its GPUs: bit i is GPU i."""


class ProposalBody(Model):
    """A gang for a waiting job: places for all of its GPUs, the best first."""

    job_id: Id
    version: int = Field(ge=0, description="`version` of the view in which they were found")
    candidates: tuple[Masks, ...] = Field(
        min_length=1,
        max_length=CANDIDATES_MOST,
        description="each a mask of GPUs by server; CPUs and memory go with them as the job asks",
    )


class ProposalDocument(Document):
    """What the approver said: the gang is granted whole, or not at all."""

    job_id: str
    approved: bool
    choice: int | None = Field(description="the number of the candidate that was granted, from 0")
    version: int = Field(description="the last event that the approver looked at")
    reason: str = Field(description="why the first candidate was refused; empty: it was granted")
    detail: str
    conflicts: dict[str, int] = Field(
        description="by server, the mask of its GPUs that were not free for the job"
    )
    retry_after_s: float | None = Field(
        description="when to look again, so that those who collided do not meet again"
    )
    seq: int


class ViewServer(Model):
    """A server that takes jobs; masks of GPUs have GPU i as bit i."""

    name: str
    gpu_type: str
    gpus: int
    free: int = Field(description="the mask of the GPUs that are nobody's")
    cpus_free: float
    memory_mb_free: int
    rack: str
    domain: str
    levels: dict[str, tuple[int, ...]] = Field(
        description="by level inside the server (`nvlink`, `switch`, `socket`), the masks of its "
        "groups"
    )
    links: tuple[int, ...] = Field(description="the masks of GPUs that are joined directly")


class AdmittedJob(Model):
    """A job that the order lets start, and that may be proposed."""

    job_id: str
    user: str
    queue: str
    gpus: int
    gpu_types: tuple[str, ...]
    cpus: float = Field(description="of the whole job")
    memory_mb: int = Field(description="of the whole job")
    max_level: Level | None
    shapes: tuple[tuple[int, ...], ...]
    rejected: int = Field(description="how often it was rejected in a row")
    kept: dict[str, int] = Field(description="by server, the mask of the GPUs kept for it")


class ViewDocument(Document):
    """Which GPUs are free, and whose turn it is."""

    version: int = Field(description="the number of the last event in it; proposals name it")
    at: Instant
    servers: tuple[ViewServer, ...]
    admitted: tuple[AdmittedJob, ...] = Field(description="in the order of their admission")
