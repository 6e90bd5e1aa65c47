"""Who shrinks for jobs that take turns: against every set of jobs that could, on one server."""

from dataclasses import dataclass
from itertools import combinations

from hypothesis import assume, given, strategies as st

from shunter.core import NO_GUARDS, RUNNING, Change, Job, Plan, Rehome, Resize, State, View
from shunter.core.fold import replay
from shunter.core.planning import Draft, approve
from shunter.events import (
    SHRINKS,
    Allocation,
    AllocationChanged,
    Because,
    Event,
    JobResized,
    Share,
    Sharing,
)
from shunter.policies.gandiva import IdleServers, Placer, PlannedSizes
from tests.factories import attempt_started, job_id, job_submitted, node_name, servers
from tests.slices import searched


@dataclass(frozen=True)
class Tenant:
    """A job on some GPUs of the server: as many as submitted, or resized within its bounds."""

    mask: int
    submitted: int
    fewest: int
    is_elastic: bool
    runs: bool


@st.composite
def tenants(draw: st.DrawFn, gpus: int) -> Tenant:
    mask = draw(st.integers(1, (1 << gpus) - 1))
    is_elastic, runs = draw(st.booleans()), draw(st.integers(0, 4)) > 0
    submitted = draw(st.integers(1, mask.bit_count() + 1)) if is_elastic else mask.bit_count()
    fewest = draw(st.integers(1, min(submitted, mask.bit_count())))
    return Tenant(mask, submitted, fewest, is_elastic, runs)


crowds = st.integers(1, 6).flatmap(
    lambda gpus: st.tuples(st.just(gpus), st.lists(tenants(gpus), min_size=2, max_size=5))
)


def state_of(gpus: int, jobs: list[Tenant]) -> State:
    """Return the state after all of them were submitted, resized, placed and maybe started."""
    events: list[Event] = [*servers(gpus)]
    for number, job in enumerate(jobs):
        sizes = {"gpus_min": job.fewest, "gpus_max": max(gpus, job.submitted)}
        bounds = sizes if job.is_elastic else {}
        events.append(job_submitted(number, job.submitted, **bounds))
        if job.mask.bit_count() != job.submitted:
            events.append(JobResized(0, job_id(number), job.mask.bit_count()))
        target = Allocation((Share(node_name(0), job.mask),), Sharing.sliced)
        events.append(AllocationChanged(0, job_id(number), target, Because("test")))
        events += [attempt_started(number)] if job.runs else []
    return replay(events)


def changes_of(view: View) -> list[Change]:
    """Return what changes for jobs in turns, if nobody may just have GPUs that are free."""
    idle = IdleServers()
    idle.begin(view)
    with Draft(view) as draft:
        placer = Placer(view, draft, {}, None)
        assume(not list(placer.rehomed(view.jobs.values())))
        return [*PlannedSizes(view, draft, placer, idle, 1, set()).apart()]


def mask_of(change: Change) -> int:
    assert isinstance(change, Resize | Rehome), "nobody leaves, or starts"
    return change.allocation.shares[0].gpu_mask


def fewest_for(job: Job, state: State, gpus: int, is_fixed: bool) -> int | None:
    """Return how many have to shrink at least for a job to be alone; None: all would not do."""
    masks = {name: one.allocation.shares[0].gpu_mask for name, one in state.jobs.items()}
    can = [
        one for one in state.jobs.values() if one.submitted_spec.is_elastic and one.phase is RUNNING
    ]
    for floors in (
        {one.job_id: one.submitted_spec.gpus for one in can},
        {one.job_id: one.submitted_spec.sizes[0] for one in can},
    ):
        smaller = [name for name, gpus in floors.items() if gpus < masks[name].bit_count()]
        for count in range(1, len(smaller) + 1):
            for some in combinations(smaller, count):
                taken = 0
                for name, mask in masks.items():
                    taken |= 0 if name in {*some, job.job_id} else mask
                left = ((1 << gpus) - 1) & ~taken
                wanted = sum(floors[name] for name in some)
                if job.job_id not in some:
                    if is_fixed and masks[job.job_id] & ~left:
                        continue
                    wanted += masks[job.job_id].bit_count()
                if wanted <= left.bit_count():
                    return count
    return None


@searched(400)
@given(crowd=crowds, is_fixed=st.booleans())
def test_jobs_shrink_for_turns_where_any_could_and_as_few_as_will_do(
    crowd: tuple[int, list[Tenant]], is_fixed: bool
) -> None:
    """Goal: nobody takes turns that others could end. Method: all sets that may shrink, by count.

    The last submitted of those in turns is the first whose turn it is to be helped; if nobody is,
    none of them could be.
    """
    gpus, jobs = crowd
    state = state_of(gpus, jobs)
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False, homes_are_fixed=is_fixed)
    view.open()
    changes = changes_of(view)
    owners = [
        sum(one.allocation.shares[0].gpu_mask >> gpu & 1 for one in state.jobs.values())
        for gpu in range(gpus)
    ]
    shared = sum(1 << gpu for gpu, count in enumerate(owners) if count > 1)
    in_turns = [
        one for one in reversed(state.jobs.values()) if one.allocation.shares[0].gpu_mask & shared
    ]
    wanted = [fewest_for(one, state, gpus, is_fixed) for one in in_turns]
    helped = [(one, few) for one, few in zip(in_turns, wanted, strict=True) if few]
    plan = Plan(tuple(changes))
    approval = approve(plan, state, NO_GUARDS, 0, takes_turns=True, homes_are_fixed=is_fixed)
    assert not approval.refused
    assert bool(changes) == bool(helped)
    for job, few in helped[:1]:
        shrunk = changes[:few]
        assert all(isinstance(one, Resize) and one.because.rule == SHRINKS for one in shrunk)
        assert all(job.job_id in (one.job_id, *one.because.beneficiaries) for one in shrunk)
        own = [one for one in changes if one.job_id == job.job_id]
        after = {name: one.allocation.shares[0].gpu_mask for name, one in state.jobs.items()}
        after |= {one.job_id: mask_of(one) for one in (*shrunk, *own)}
        assert not any(after[job.job_id] & after[name] for name in after if name != job.job_id)
