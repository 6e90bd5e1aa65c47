"""Scenes of a live cluster in which the GPUs of a job turned out to be others'."""

from dataclasses import replace

from shunter.core import Input, SubmitJob, SuspendJob
from shunter.events import (
    AllocationChanged,
    AllocationLearned,
    AttemptStarted,
    GpusReleased,
    GpusTaken,
    NodeAdded,
    RoundPlanned,
)
from tests.factories import (
    World,
    allocation,
    job_id,
    job_spec,
    node_added,
    node_name,
    policy,
    servers,
)
from tests.replay.recording import Recorded, rebuilt

J0, J1, J2 = map(job_id, range(3))
N0, N1 = map(node_name, range(2))
SIZED = tuple(node_added(number, 4, cpus_milli=16_000) for number in (0, 1))
BOTH: list[Input] = [SubmitJob(0, J0, job_spec(4)), SubmitJob(0, J1, job_spec(4))]


def live(*steps: list[Input], there: tuple[NodeAdded, ...] = ()) -> Recorded:
    """Return what a live scheduler records, stepped once each 10 us; two servers of four GPUs."""
    chosen = policy()
    core, events = World(servers=there or servers(4, 4), is_live=True, round_us=10).scheduler(
        chosen, instant=False
    )
    for number, inputs in enumerate(steps):
        at_us = 10 * number
        events += core.step(at_us, [replace(one, at_us=at_us) for one in inputs])[0]
    return Recorded(list(events), rebuilt(chosen, core.rules))


def displaced() -> Recorded:
    """Return a log in which Slurm gave j1's GPUs to j0, and others took those of n0."""
    found = AllocationLearned(0, J0, 1, allocation(n1=0b1111))
    gone: list[Input] = [GpusReleased(0, J1, 1), GpusTaken(0, N0, 0b1111)]
    return live(BOTH, [found], [], [*gone, SubmitJob(0, J2, job_spec(8))])


def displaced_before_the_round() -> Recorded:
    recorded = displaced()
    planned = next(s for s in recorded.seqs(RoundPlanned) if recorded.at(s).at_us == 30)
    return replace(recorded, events=recorded.events[: planned - 1])


def displaced_for_cpus() -> Recorded:
    taken = GpusTaken(0, N0, 0b0001, cpus_milli=12_000)
    return live([SubmitJob(0, J0, job_spec(1, cpus_milli=8000))], [taken], there=SIZED)


def cpus_taken() -> Recorded:
    first, second = GpusTaken(0, N0, 0, cpus_milli=12_000), GpusTaken(0, N1, 0, cpus_milli=9000)
    submitted = SubmitJob(0, J0, job_spec(1, cpus_milli=8000))
    return live([first, second], [submitted], [], there=SIZED)


def granted_gpus_taken() -> Recorded:
    """Return a log in which j2 is to get what j0 leaves on n0, and others take all of it."""
    started: list[Input] = [AttemptStarted(0, J0, 1), AttemptStarted(0, J1, 1), SuspendJob(0, J0)]
    submitted: list[Input] = [*BOTH, SubmitJob(0, J2, job_spec(4))]
    recorded = live(submitted, started, [], [GpusTaken(0, N0, 0b1111)])
    changes = recorded.seqs(AllocationChanged)
    withdrawn = next(s for s in changes if recorded.at(s).because.rule == "displaced")
    return replace(recorded, events=recorded.events[:withdrawn])
