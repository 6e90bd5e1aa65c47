"""The turns on one server of the simulated world, and what of them is about to change."""

from shunter.backends.node.rotation.rule import Rotation
from shunter.events.values.ids import JobId


class ServerTurns:
    """The rotation of a server, and what is foreseen there.

    `leaving` are the turns of the next quantum while boundaries of this one are awaited; `coming`
    those that begin once hands are changed, `packing` who is to be packed with whom once they are.
    `called_us` is when turns were chosen last for a timetable.
    """

    __slots__ = ("called_us", "coming", "leaving", "packing", "rotation", "step")

    def __init__(self, rotation: Rotation) -> None:
        self.rotation = rotation
        self.step = 0
        self.called_us: int | None = None
        self.leaving: dict[str, int] | None = None
        self.coming: dict[str, int] | None = None
        self.packing: list[tuple[JobId, JobId]] = []

    def jobs(self, turns: dict[str, int]) -> dict[JobId, int]:
        """Return the masks of all jobs that have some turns, given by member."""
        members = self.rotation.members
        return {
            JobId(each): mask
            for name, mask in turns.items()
            if name in members
            for each in members[name].names
        }

    def inherit(self, name: str, heir: str) -> None:
        """Let another job have the turns of one that has left."""
        for turns in (self.leaving, self.coming):
            if turns is not None and name in turns:
                turns[heir] = turns.pop(name)

    @property
    def is_changing(self) -> bool:
        """Whether GPUs are about to change hands, so that nobody else gets any."""
        return self.leaving is not None or self.coming is not None
