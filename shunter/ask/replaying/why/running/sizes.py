"""Which size the gang of a job has now, who wanted that and when, if it is not the first one."""

from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.why.explanation import Explanation
from shunter.counting import counted
from shunter.events.facts.jobs import JobResized
from shunter.events.values.causes import BY_POLICY


def size_of(found: Explanation) -> dict[str, object] | None:
    """Return who gave the job its size; None: it has the one it was submitted with."""
    told = [own for own in found.story.own if isinstance(own.event, JobResized)]
    if not told:
        return None
    last, event = told[-1], told[-1].event
    assert isinstance(event, JobResized), "only such were taken"
    spec = found.story.submitted.spec
    fewest, most = spec.sizes
    when = f"{clock(event.at_us)} (e{last.seq}) by {resized_by(event)}"
    size = f"its gang was given {counted(event.gpus, 'GPU')} at {when}"
    return {
        "seq": last.seq,
        "at_us": event.at_us,
        "time": clock(event.at_us),
        "gpus": event.gpus,
        "by": resized_by(event),
        "submitted_with": spec.gpus,
        "words": f"{size}; submitted with {spec.gpus}, and may have {fewest} to {most}",
    }


def resized_by(event: JobResized) -> str:
    """Return who wanted another size, in words."""
    return "the policy" if event.by == BY_POLICY else event.by or "somebody"
