"""Moves that wait for each other's GPUs: who goes first, and who has to be suspended."""

from hypothesis import given, strategies as st

from shunter.core import NO_GUARDS, Move, Start, Suspend, View
from shunter.core.fold import replay
from shunter.core.planning import untangled
from shunter.events import Because, Event, JobId, facts
from tests.factories import allocation, job_id, job_submitted, scheduler_started, servers

SERVERS = 8
BECAUSE = Because("test")


def running(jobs: int) -> View:
    """Return a cluster of servers with a GPU each; job i runs on server i."""
    started: list[Event] = [scheduler_started(), *servers(*[1] * (jobs + SERVERS))]
    submitted = [job_submitted(number) for number in range(jobs)]
    placed = [
        facts.AllocationChanged(0, job_id(number), allocation(**{f"n{number}": 1}), BECAUSE)
        for number in range(jobs)
    ]
    view = View(replay([*started, *submitted, *placed]), NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    return view


def moved(view: View, targets: dict[int, int]) -> tuple[list[JobId], list[JobId]]:
    """Return who is suspended, and who is given its new server in which order.

    Each must find its server free when it has its turn.
    """
    moves = {
        job_id(number): Move(job_id(number), allocation(**{f"n{target}": 1}), BECAUSE)
        for number, target in targets.items()
    }
    circles, straight = untangled(moves, view)
    taken = {job.allocation.shares[0].node: name for name, job in view.jobs.items()}
    for change in circles:
        assert isinstance(change, Suspend)
        del taken[view.jobs[change.job_id].allocation.shares[0].node]
    for change in straight:
        assert isinstance(change, Move | Start)
        if isinstance(change, Move):
            del taken[view.jobs[change.job_id].allocation.shares[0].node]
        (share,) = change.allocation.shares
        assert share.node not in taken, "its server is not free yet"
        taken[share.node] = change.job_id
    return [each.job_id for each in circles], [each.job_id for each in straight]


def waits_for_ever(number: int, targets: dict[int, int]) -> bool:
    """Say whether a job's server is left only after itself has left its own, if ever."""
    seen = {number}
    while (number := targets[number]) in targets:
        if number in seen:
            return True
        seen.add(number)
    return False


@given(st.permutations(range(SERVERS)), st.sets(st.integers(0, SERVERS - 1)))
def test_only_those_in_circles_and_behind_them_are_suspended(
    places: list[int], stays: set[int]
) -> None:
    # Who does not stay goes to the server of another one, or to one that was free.
    free = iter(range(SERVERS, 2 * SERVERS))
    targets = {
        number: next(free) if target in stays else target
        for number, target in enumerate(places)
        if number not in stays and number != target
    }
    suspended, placed = moved(running(SERVERS), targets)
    assert suspended == [job_id(n) for n in targets if waits_for_ever(n, targets)]
    assert sorted(placed) == sorted(job_id(number) for number in targets)


def test_long_chain_costs_what_it_moves() -> None:
    jobs = 3_000  # it took minutes when each looked at all others each time
    suspended, placed = moved(running(jobs), {number: number + 1 for number in range(jobs)})
    assert suspended == []
    assert placed == [job_id(number) for number in reversed(range(jobs))]
