"""What checkpoints have to do with a wait, in words: a silent server, a split, and what is lost."""

from shunter.app.replaying.formatting import discarded_in_words, gpus_in_words
from shunter.app.replaying.why.explanation import Explanation
from shunter.core.fold.checkpoints import awaited, out_of_reach
from shunter.events.facts.execution import CheckpointDiscarded
from shunter.events.values.reasons import Wait

TOLD_MOST = 3


def checkpoint_unreachable(found: Explanation, evidence: Wait) -> str:
    """Return which servers a job waits for, and what it saved there."""
    job, state = found.job, found.state
    if job is None or state is None or not (nodes := awaited(job, state.cluster)):
        return "its newest checkpoint lies on a server that does not answer"
    place = (job.checkpoints or ())[out_of_reach(job, state.cluster)]
    step = "" if place.step is None else f", of step {place.step},"
    return (
        f"its newest checkpoint{step} was saved by attempt {place.attempt} on "
        f"{', '.join(place.nodes)}, and {', '.join(nodes)} does not answer"
    )


def split_kept(found: Explanation, evidence: Wait) -> str:
    """Return the split over servers that a job keeps."""
    split = "" if found.job is None else "+".join(map(str, found.job.split))
    return (
        f"it needs {gpus_in_words(evidence.needed)}, and {evidence.free} are free for it, but not "
        f"as {split} a server, the split over servers that its checkpoints are of"
    )


def go_on_without(found: Explanation, evidence: Wait) -> list[str]:
    """Return what lets a job go on whose checkpoint is out of reach."""
    given_up = (
        f"its owner gives the checkpoint up: `shunter discard-checkpoint {found.story.job_id}`"
    )
    return [f"the server answers again or is lost for good, or {given_up}"]


def split_fits(found: Explanation, evidence: Wait) -> list[str]:
    """Return what a job waits for that keeps its split over servers."""
    return [
        (
            "GPUs come free on servers so that its split fits, or it is submitted anew with "
            "--split-may-change, if another number of processes can load its checkpoints"
        )
    ]


def discarded(found: Explanation) -> list[str]:
    """Return which checkpoints a job goes on without, and why."""
    events = [own.event for own in found.story.own if isinstance(own.event, CheckpointDiscarded)]
    return [discarded_in_words(event) for event in events[-TOLD_MOST:]]
