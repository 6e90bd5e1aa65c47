"""What CPUs and memory a running job has beside its GPUs, and why they are others than before."""

from collections.abc import Iterable
from math import isclose

from shunter.ask.replaying.formatting import resources_in_words
from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.why.explanation import Explanation
from shunter.ask.replaying.why.job_events import Own
from shunter.core.sizing import SHRUNK
from shunter.core.sizing.mechanism import whole_of
from shunter.events.facts.decisions import AllocationChanged, JobReshaped
from shunter.events.facts.execution import AllocationLearned, ReshapeRefused
from shunter.events.facts.profiles import ProfileSampled, SensitivityCorrected
from shunter.events.values.allocation import Share, Sharing
from shunter.events.values.resources import Resources

_GAINERS_NAMED = 3


def shares_of(found: Explanation) -> dict[str, object] | None:
    """Return what a running job has, and the last change of that.

    None: nobody sizes jobs and none was changed, or it does not run.
    """
    grant = found.grant
    if grant is None or found.last_run is None or found.last_run.ended_by is not None:
        return None
    told = [own for own in found.story.own if isinstance(own.event, JobReshaped | ReshapeRefused)]
    if told and told[-1].seq > grant.seq and isinstance(told[-1].event, ReshapeRefused):
        return _kept(found, told[-1].seq, told[-1].event)
    reshaped = [own for own in told if _is_of_shares(own)]
    if not reshaped or reshaped[-1].seq < grant.seq:
        return None if found.sizing is None else _granted(grant)
    last = reshaped[-1]
    event = last.event
    assert isinstance(event, JobReshaped), "only such were taken"
    since = max(grant.seq, reshaped[-2].seq if len(reshaped) > 1 else 0)
    before = _steps_per_s(own for own in found.story.own if since < own.seq < last.seq)
    after = _steps_per_s(own for own in found.story.own if own.seq > last.seq)
    return {
        **_document(
            last.seq, event, f"{_why(found, event)}{_measured(before, after)}{_corrected(found)}"
        ),
        "rule": event.because.rule,
        "beneficiaries": list(event.because.beneficiaries),
        "steps_per_s": [before, after],
    }


def corrections_of(found: Explanation) -> list[dict[str, object]]:
    """Return where a job measured another speed than the table of sensitivity said."""
    return [
        _correction(own.seq, own.event)
        for own in found.story.own
        if isinstance(own.event, SensitivityCorrected)
    ]


def _correction(seq: int, event: SensitivityCorrected) -> dict[str, object]:
    has, base = (
        resources_in_words(0, cpus_milli / 1000, memory_mb)
        for cpus_milli, memory_mb in (
            (event.cpus_milli, event.memory_mb),
            (event.base_cpus_milli, event.base_memory_mb),
        )
    )
    return {
        "seq": seq,
        "at_us": event.at_us,
        "time": clock(event.at_us),
        "cpus": event.cpus_milli / 1000,
        "memory_mb": event.memory_mb,
        "expected": event.expected,
        "measured": event.measured,
        "words": f"the table said {event.expected:.3g} times the proportional speed of "
        f"{event.model} at {has} for each GPU, and it measured {event.measured:.3g} (by its own "
        f"rate at {base}): corrected at {clock(event.at_us)} (e{seq})",
    }


def shares_before(found: Explanation, seq: int) -> tuple[Share, ...]:
    """Return what a job had before an event of its own, after all changes."""
    has: tuple[Share, ...] = ()
    for own in found.story.own:
        event = own.event
        if own.seq >= seq:
            break
        if isinstance(event, AllocationChanged | JobReshaped | AllocationLearned):
            has = event.allocation.shares or has
        elif isinstance(event, ReshapeRefused):
            kept = dict(zip(event.wanted, event.kept, strict=True))
            has = tuple([kept.get(share, share) for share in has])
    return has


def _is_of_shares(own: Own) -> bool:
    """Say whether an event changes CPUs or memory, not the GPUs of one's turns."""
    event = own.event
    return isinstance(event, JobReshaped) and event.allocation.sharing is not Sharing.sliced


def _granted(grant: Own) -> dict[str, object] | None:
    """Return the shares with which a job was given its GPUs, and which it has kept."""
    event = grant.event
    assert isinstance(event, AllocationChanged), "it was given GPUs by one"
    if not any(share.cpus_milli or share.memory_mb for share in event.allocation.shares):
        return None
    return _document(grant.seq, event, "as it was given")


def _kept(found: Explanation, seq: int, event: ReshapeRefused) -> dict[str, object]:
    """Return what a job has since a server refused it other shares, and which."""
    wanted, kept = (_together(shares) for shares in (event.wanted, event.kept))
    nodes = ", ".join(share.node for share in event.kept)
    because = (
        f"for {nodes} refused it {_amounts(wanted)} there: {event.cause}; it keeps "
        f"{_amounts(kept)} there while this attempt lasts"
    )
    return {
        **_numbers(seq, event.at_us, _together(shares_before(found, seq + 1)), because),
        "rule": "refused",
        "cause": event.cause,
        "refused_cpus": wanted.cpus_milli / 1000,
        "refused_memory_mb": wanted.memory_mb,
    }


def _document(seq: int, event: AllocationChanged | JobReshaped, because: str) -> dict[str, object]:
    """Return what a fact gave a job, since when, and why."""
    return _numbers(seq, event.at_us, _together(event.allocation.shares), because)


def _numbers(seq: int, at_us: int, has: Resources, because: str) -> dict[str, object]:
    return {
        "seq": seq,
        "at_us": at_us,
        "time": clock(at_us),
        "cpus": has.cpus_milli / 1000,
        "memory_mb": has.memory_mb,
        "words": f"{_amounts(has)} since {clock(at_us)} (e{seq}), {because}",
    }


def _together(shares: Iterable[Share]) -> Resources:
    return sum([share.beside for share in shares], Resources())


def _steps_per_s(events: Iterable[Own]) -> float | None:
    """Return the rate that a job itself reported last; None: it reported none."""
    batches = [own.event.batch_s for own in events if isinstance(own.event, ProfileSampled)]
    known = [batch_s for batch_s in batches if batch_s]
    return round(1 / known[-1], 3) if known else None


def _measured(before: float | None, after: float | None) -> str:
    """Return what the job's own reports say of the change, as far as they do."""
    if before is None and after is None:
        return ""
    rates = ["unknown" if rate is None else f"{rate:.3g}" for rate in (before, after)]
    return f"; measured {' -> '.join(rates)} steps a second"


def _corrected(found: Explanation) -> str:
    """Return whether the table of the job's model is corrected, by whichever job."""
    model = found.story.spec.model
    cells = () if found.state is None else found.state.corrections.get(model, ())
    if not cells:
        return ""
    return f"; the table of {model} is corrected at {len(cells)} share{'s'[: len(cells) > 1]}"


def _amounts(has: Resources) -> str:
    return resources_in_words(0, has.cpus_milli / 1000, has.memory_mb)


def _why(found: Explanation, event: JobReshaped) -> str:
    """Return why the shares changed, with the speeds that the table says."""
    because = event.because
    speeds = " -> ".join(f"{speed:.3g}" for speed in because.scores)
    gainers = because.beneficiaries
    named = ", ".join(gainers[:_GAINERS_NAMED])
    more = f" and {len(gainers) - _GAINERS_NAMED} more" if len(gainers) > _GAINERS_NAMED else ""
    room = f" to make room for {named}{more}" if because.rule == SHRUNK and gainers else ""
    if because.rule == SHRUNK and because.scores and _is_as_fair(found, event):
        room = f" to the speed of its proportional share{room}"
    return f"{because.rule}{room}" + (f": speed {speeds}" if speeds else "")


def _is_as_fair(found: Explanation, event: JobReshaped) -> bool:
    """Say whether a job is as fast as with what it is guaranteed, and no faster."""
    sizing, state, spec = found.sizing, found.state, found.story.spec
    if sizing is None or state is None:
        return False
    cluster, sizing = state.cluster, sizing.corrected(state.corrections)
    server = cluster.servers[event.allocation.shares[0].node]
    whole = whole_of(cluster.pools[server.configuration.gpu_type])
    return isclose(event.because.scores[-1], sizing.speed(spec, sizing.guaranteed(spec, whole)))
