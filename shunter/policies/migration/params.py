"""What may be set of moves for waiting gangs: `[policy.topology.make_room]`."""

from pydantic import BaseModel, Field

from shunter.policies.migration.making_room import MakingRoom
from shunter.policies.params import Duration, PolicyParams


class MakeRoomParams(BaseModel):
    """Moves of running jobs for gangs that wait for GPUs near together.

    Xiao, SOSP student research competition 2017.
    """

    model_config = PolicyParams.model_config

    cost: Duration = Field(
        gt=0,
        default=10_000_000,
        description="what a move costs each GPU of the job (Gandiva: 8 to 10 s with PyTorch); all "
        "moves for a gang together must cost less than its GPUs times the wait they save it",
    )
    moves_most: int = Field(
        default=4,
        ge=1,
        le=16,
        description="how many jobs one plan moves at most; the text leaves it open; ours",
    )
    every: Duration = Field(
        gt=0,
        default=60_000_000,
        description="how long after a plan to look again while a gang waits so and nothing else "
        "happens; ours",
    )

    def making_room(self) -> MakingRoom:
        """Return what plans them."""
        return MakingRoom(self.cost, self.moves_most, self.every)
