"""Who runs when under a policy, as text: tables of scenes in the notation of `tests/behaviour`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shunter.core import Policy
from shunter.core.planning import PLACEMENTS
from shunter.core.ranking import RankedPolicy
from shunter.events import Sharing, facts
from tests.behaviour.waits_scenes import blocks, run_of
from tests.factories import Outcome


@dataclass(frozen=True)
class Play:
    """One case: its words, the scene, its policy, and who gets and leaves GPUs when."""

    words: str
    scene: str
    sees: str
    by: Policy[Any]
    unit_us: int
    world: Mapping[str, Any]

    def __str__(self) -> str:
        return self.words

    def seen(self) -> str:
        """Return who got and left GPUs when, and who ended; but no refused plan."""
        outcome = run_of(self.scene, self.by, **self.world)
        assert not outcome.of(facts.PlanRejected)
        return told(outcome, self.unit_us)


def plays(
    text: str, policies: Mapping[str, Policy[Any]], unit_us: int = 1, **world: Any
) -> list[Play]:
    """Return the cases of a table as text, whose scenes begin with `under` one of the policies."""
    found = []
    for words, scene, (sees,) in blocks(text):
        under, _, rest = scene.partition("; ")
        by = policies[under.removeprefix("under ")]
        found.append(Play(words, rest, sees, by, unit_us, world))
    return found


def ranked(index: Any, placement: str = "consolidated") -> Policy[Any]:
    """Return the policy that runs jobs by an index."""
    return RankedPolicy(index, PLACEMENTS[placement]())


def told(outcome: Outcome, unit_us: int = 1) -> str:
    """Return `5: j0 leaves, j1 gets 8; 8: j1 ends`, in units such as minutes."""
    moments: dict[int, list[str]] = {}
    for event in outcome.of(facts.AllocationChanged, facts.JobFinished):
        moments.setdefault(event.at_us, []).append(_words(event))
    parts = ((at_us / unit_us, words) for at_us, words in moments.items())
    return "; ".join(f"{at:.10g}: {', '.join(words)}" for at, words in parts)


def _words(event: facts.AllocationChanged | facts.JobFinished) -> str:
    if isinstance(event, facts.JobFinished):
        return f"{event.job_id} ends"
    nodes = "+".join(share.node for share in event.allocation.shares)
    if not nodes:
        return f"{event.job_id} leaves"
    where = "" if nodes == "n0" else f" on {nodes}"
    how = "shares" if event.allocation.sharing is Sharing.packed else "gets"
    return f"{event.job_id} {how} {event.allocation.gpus}{where}"
