"""Where a job stands in the queue and what it was decided by, in words; and what became of it."""

from shunter.ask.replaying.formatting import because_in_words, gpus_in_words
from shunter.ask.replaying.instants import clock, span
from shunter.ask.replaying.scores.words import decision_score, gpu_time_in_words, score_in_words
from shunter.ask.replaying.why.explanation import Explanation
from shunter.ask.replaying.why.job_events import Own
from shunter.ask.replaying.why.present import Group
from shunter.ask.replaying.why.running.sizes import resized_by
from shunter.ask.replaying.why.timeline import ended_as
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.jobs import JobHeld, JobResized
from shunter.events.values.causes import HELD, RESIZED


def decision_in_words(found: Explanation, own: Own) -> str:
    """Return why something was decided about the job: rule, scores, gainers."""
    event = own.event
    assert isinstance(event, AllocationChanged), "an allocation is decided by one kind only"
    because = event.because
    if because == HELD:
        return f"held{by_in_words(found, own)}"
    if because == RESIZED:
        sizes = [each.event for each in found.story.own if each.seq < own.seq]
        wish = next(event for event in reversed(sizes) if isinstance(event, JobResized))
        return f"{resized_by(wish)} wants it to have {gpus_in_words(wish.gpus)}"
    return because_in_words(because, scores_in_words(found, own))


def by_in_words(found: Explanation, own: Own) -> str:
    """Return by whom a job was put on hold that left its GPUs for that."""
    holds = [each.event for each in found.story.own if each.seq < own.seq]
    by = next((event.by for event in reversed(holds) if isinstance(event, JobHeld)), "")
    return f" by {by}" if by else ""


def scores_in_words(found: Explanation, own: Own) -> str:
    """Return what the scores of a decision say; empty where nobody can tell."""
    event = own.event
    if not isinstance(event, AllocationChanged):
        return ""
    measures = found.measures_at(own.seq)
    return decision_score(event.because, measures, found.used_gpu_us(event.at_us))


def rank_in_words(found: Explanation) -> str:
    """Return what the score says that the job has at the instant asked for."""
    place = None if found.present is None else found.present.place
    if place is None:
        return ""
    used_gpu_us = found.used_gpu_us(found.story.at_us)
    return score_in_words(found.measures_at(found.story.seq), place.score, used_gpu_us)


def became(found: Explanation) -> list[str]:
    """Return what became of a waiting job, if the log goes on."""
    later, story = found.later, found.story
    if later is None:
        return []
    if isinstance(later.event, AllocationChanged):
        gpus = gpus_in_words(later.event.allocation.gpus)
        what = "its place" if not later.event.allocation.gpus else gpus
        after = span(later.event.at_us - story.at_us)
        lines = [f"it got {what} at {clock(later.event.at_us)} (e{later.seq}), {after} later"]
    elif later.event is not None:
        outcome = ended_as(Own(later.seq, later.event, None))
        lines = [f"it ended as {outcome} at {clock(later.event.at_us)} (e{later.seq}), waiting"]
    else:
        lines = [f"it still waited at the end of the log, at {clock(later.upto_us)}"]
    ended = [
        f"{job_id} at {clock(event.at_us)}" for job_id, (_, event) in sorted(later.ends.items())
    ]
    if ended:
        lines.append(f"until then these ended: {', '.join(ended)}")
    return lines


def standing(found: Explanation) -> list[str]:
    """Return where a job ranks, and what those before it have left to do."""
    place = None if found.present is None else found.present.place
    if place is None:
        return []
    ahead = (
        f", behind {', '.join(place.ahead)}" if place.ahead else ", no waiting job is ahead of it"
    )
    more = " and others" if place.position - 1 > len(place.ahead) else ""
    score = rank_in_words(found)
    why = f"; it {score}" if score else ""
    lines = [f"it ranks {place.position} of {place.waiting} that wait{ahead}{more}{why}"]
    waiting, running = place.waiting_ahead, place.running_ahead
    if waiting.jobs:
        lines.append(f"ahead in the queue: {_jobs(waiting)} for {_work(waiting)}")
    if running.jobs:
        lines.append(f"ahead on GPUs: {_jobs(running)} on {_work(running)}")
    return lines


def _jobs(group: Group) -> str:
    return "1 job" if group.jobs == 1 else f"{group.jobs:,} jobs"


def _work(group: Group) -> str:
    """Return the GPUs of some jobs, and what work they have left, as far as is known."""
    if group.unknown == group.jobs:
        return f"{gpus_in_words(group.gpus)}; nobody knows how long they run"
    unknown = f"; of {group.unknown:,} of them nobody knows it" if group.unknown else ""
    left = gpu_time_in_words(group.left_gpu_us)
    if not group.limited:
        return f"{gpus_in_words(group.gpus)}, with {left} left at base speed{unknown}"
    known = group.jobs - group.unknown
    whose = f" of {group.limited:,} of them" if group.limited < known else ""
    limits = f"by the time limit{'s' if group.limited > 1 else ''}{whose}"
    return f"{gpus_in_words(group.gpus)}, with {left} left at most, {limits}{unknown}"
