"""Rules for the facts of trials: what is tried, and how it ended."""

from dataclasses import replace

from shunter.core.fold.attempt_transitions import job_of
from shunter.core.fold.sharing.packs import pack, unpack
from shunter.core.performance.trials import KnownVerdict, Trial
from shunter.core.state import Rule, State
from shunter.errors import IllegalEventError
from shunter.events.facts import Event, TrialKept, TrialReverted, TrialStarted
from shunter.events.values import LOSSES, MILLION, NOTHING, SUM_MOST, TrialKind, TrialReason


def trial_started(state: State, event: TrialStarted) -> None:
    """Note what is tried; pack jobs that are to have their turns together."""
    names = (event.job_id, *event.partners)
    jobs = [job_of(state, name, "TrialStarted") for name in names]
    if event.key is None or any(job.packed_with or job.job_id in state.trials for job in jobs):
        raise IllegalEventError(
            f"TrialStarted of job {event.job_id}: nothing says what is tried, or it is already"
        )
    if event.trial not in set(TrialKind) or not 0 < event.baseline < SUM_MOST:
        raise IllegalEventError(
            f"TrialStarted of job {event.job_id}: {event.trial!r} from {event.baseline}, expected "
            f"one of {', '.join(TrialKind)} from a sum above 0"
        )
    for job in jobs:
        job.pace = job.pace.anew()
    kind = TrialKind(event.trial)
    if kind is TrialKind.pack:
        pack(state, jobs, event.at_us)
    state.trials[event.job_id] = Trial(
        kind,
        event.key,
        event.partners,
        event.at_us,
        round(event.baseline * MILLION),
        event.batches,
        tuple([job.service_us(event.at_us) for job in jobs]),
        jobs[0].held if kind is TrialKind.migrate else NOTHING,  # it has yet to leave
    )


def trial_kept(state: State, event: TrialKept) -> None:
    """Remember a verdict; what was tried goes on."""
    _remember(state, event, "TrialKept")


def trial_reverted(state: State, event: TrialReverted) -> None:
    """Remember a verdict; jobs that were packed have turns of their own again."""
    job = job_of(state, event.job_id, "TrialReverted")
    if event.job_id in state.trials:
        _remember(state, event, "TrialReverted")
    elif not job.packed_with:
        raise IllegalEventError(f"TrialReverted of job {event.job_id}, of which nothing is tried")
    if job.packed_with:
        unpack(state, job, event.at_us)
    job.pace = job.pace.anew()


def _remember(state: State, event: TrialKept | TrialReverted, kind: str) -> None:
    trial = state.trials.pop(event.job_id, None)
    if trial is None:
        raise IllegalEventError(f"{kind} of job {event.job_id}, of which nothing is tried")
    if event.reason not in set(TrialReason) or not 0 <= event.measured < SUM_MOST:
        raise IllegalEventError(
            f"{kind} of job {event.job_id} for {event.reason!r} with {event.measured}: expected a "
            "reason of trials and a sum of 0 or more"
        )
    reason = TrialReason(event.reason)
    if reason not in (TrialReason.not_measured, TrialReason.room):  # those say nothing of it
        state.verdicts.pop(trial.key, None)  # the newest is the last
        state.verdicts[trial.key] = KnownVerdict(
            reason in LOSSES, trial.sum_before, round(event.measured * MILLION)
        )


def probe_anew(state: State, at_us: int) -> None:
    """Begin all probes again, for nobody has read meanwhile what jobs told."""
    for job_id, trial in state.trials.items():
        jobs = [state.jobs[name] for name in (job_id, *trial.partners)]
        state.trials[job_id] = replace(
            trial, started_us=at_us, service_us=tuple([job.service_us(at_us) for job in jobs])
        )


RULES: dict[type[Event], Rule] = {
    TrialStarted: trial_started,
    TrialKept: trial_kept,
    TrialReverted: trial_reverted,
}
