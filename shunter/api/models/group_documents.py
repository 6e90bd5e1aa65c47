"""Answers about multi-jobs: how far their jobs are, and what became of an order to all."""

from pydantic import Field

from shunter.api.models.job_documents import TurnPart
from shunter.api.models.model import Document, Instant, Model


class MemberPart(Model):
    """A job of a group, which may have ended."""

    id: str
    name: str
    state: str = Field(description="as in the queue, or how it ended")
    is_over: bool
    priority: int
    gpus: int
    where: str = Field(description="servers with their GPUs; empty: nowhere")
    service_gpu_s: float = Field(description="GPU-seconds attained")
    share: float = Field(description="its part of all that the members attained, from 0 to 1")
    turns: TurnPart | None = Field(description="null: it takes none, as in the queue")
    step: int | None = Field(description="the last mini-batch it told or saved; null: none yet")
    total_steps: int | None
    batch_s: float | None = Field(description="seconds a mini-batch, as it told last")


class GroupPart(Model):
    """A group of jobs of one user."""

    group: str
    user: str
    total: int
    states: dict[str, int] = Field(description="how many members are in each state")
    service_gpu_s: float = Field(description="of all members")
    members: tuple[MemberPart, ...] = Field(description="by submission")


class GroupsDocument(Document):
    """The groups that were asked for."""

    seq: int
    now: Instant
    groups: tuple[GroupPart, ...]


class GroupToldDocument(Document):
    """What somebody asked for of a group is in the log for every member."""

    group: str
    user: str
    jobs: tuple[str, ...] = Field(description="the members that had not ended, which were told")
    ended: int = Field(description="how many members had ended, to which nothing happens")
    seq: int
