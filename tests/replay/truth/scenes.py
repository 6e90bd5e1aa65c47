"""The smallest scene for each reason that logs of policies do not show: people, live servers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shunter.backends.simulated import Costs
from shunter.core import Command, DrainNode, HoldJob, QuarantineGpu, ReleaseJob, SuspendJob
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import (
    BACKING_OFF,
    AllocationLearned,
    AttemptLost,
    AttemptStarted,
    Dependency,
    GpusReleased,
    GpusTaken,
    GpuType,
    JobId,
    JobSuspended,
    LaunchFailed,
    Level,
    NodeName,
    NodeUnreachable,
)
from shunter.policies.gavel import GavelPolicy, Isolated, Timing
from tests.factories import World, allocation, job_id, node_name, quota, run, servers, trace_job
from tests.replay.eventful_run import Script
from tests.replay.proposing.proposed_run import ProposedScript, propose, submit
from tests.replay.recording import Recorded, rebuilt, record

__all__ = ["SCENES", "Scene"]


@dataclass(frozen=True)
class Scene:
    """A run and whom to ask for in it: at an instant, or (None) at its end."""

    run: Callable[[], Recorded]
    job: str
    at_us: int | None = None


def _world(name: str, world: World, *commands: Command) -> Callable[[], Recorded]:
    return lambda: record(world, name, *commands)


J1 = JobId("j1")
FULL = World(servers=servers(4), jobs=(trace_job(0, 4, lasts=100), trace_job(1, 2, at=1, lasts=5)))
LEAVES = World(
    servers=servers(4),
    jobs=(trace_job(0, 4, lasts=100), trace_job(1, 4, at=30, lasts=4)),
    costs=Costs(2, 5, 2, 2),
)
PIECES = World(
    servers=servers(3, 3),
    jobs=(trace_job(0, 2, lasts=100, shapes=((1, 1),)), trace_job(1, 3, at=1, shapes=((3,),))),
)
APART = World(
    servers=servers(3, 3),
    jobs=(
        *(trace_job(number, 2, lasts=100, max_level=Level.server) for number in (0, 1)),
        trace_job(2, 2, at=1, max_level=Level.server),
    ),
)
ARRAY = World(
    servers=servers(4),
    jobs=tuple(
        trace_job(number, 1, lasts=50, array="j0", array_index=number, at_once=2)
        for number in range(4)
    ),
)
AFTER = World(
    servers=servers(4),
    jobs=(trace_job(0, 1, lasts=100), trace_job(1, 1, at=1, depends_on=(Dependency(job_id(0)),))),
)
WIDE = World(servers=servers(4, 2), jobs=(trace_job(0, 1, lasts=100), trace_job(1, 4, at=10)))
ASIDE = World(servers=servers(4), jobs=WIDE.jobs)
NOWHERE = World(servers=servers(4), jobs=(trace_job(0, 5),))
STRANGER = World(
    servers=servers(4),
    jobs=(trace_job(0, 1, queue="q", user="dee"),),
    queues=(quota("q", 4, users=("ana",)),),
)
ROUNDS = World(servers=servers(4), jobs=(trace_job(0, 4, at=3, lasts=5),), round_us=10)


def _gets_on_nowhere() -> Recorded:
    """The table of throughputs says that a model does nothing on the only GPU type."""
    v100 = GpuType("v100")
    table = ThroughputTable({v100: {JobKind("light", 1): 1.0, JobKind("heavy", 1): 0.0}}, {}, v100)
    by = GavelPolicy(Isolated(), PLACEMENTS["consolidated"](), Timing(10, 100), table=table)
    jobs = (trace_job(0, 1, model="heavy"),)
    world = World(servers=servers(4), jobs=jobs, round_us=10, until_us=60)
    return Recorded(run(world, by).events, rebuilt(by, world.rules(instant=True)))


def _taken() -> Recorded:
    """Strangers hold all but three GPUs."""
    script = Script()
    for name, mask in (("n0", 0b1111), ("n1", 0b1111), ("n2", 0b0001)):
        script.step(GpusTaken(0, NodeName(name), mask))
    script.submit("wide", 4)
    script.idle()
    return _recorded(script)


def _unreachable() -> Recorded:
    """The server with a checkpoint does not answer."""
    script, saver = Script(), job_id("saver")
    script.submit("saver", 4)
    script.start(saver)
    node = script.core.state.jobs[saver].held.shares[0].node
    script.step(SuspendJob(0, saver, "ana"))
    script.step(JobSuspended(0, saver, 1), GpusReleased(0, saver, 1))
    script.step(ReleaseJob(0, saver, "ana"), NodeUnreachable(0, node))
    script.idle()
    return _recorded(script)


def _stays() -> Recorded:
    """The server with a checkpoint that is too large to be copied is drained."""
    script, saver = Script(), job_id("saver")
    script.submit("saver", 4)
    script.start(saver)
    node = script.core.state.jobs[saver].held.shares[0].node
    script.step(SuspendJob(0, saver, "ana"))
    script.step(JobSuspended(0, saver, 1), GpusReleased(0, saver, 1))
    script.step(DrainNode(0, node), ReleaseJob(0, saver, "ana"))
    cause = f"the checkpoint of job saver cannot be copied to another host: host {node}: too large"
    script.step(LaunchFailed(0, saver, 2, cause, checkpoint_on=(node,), checkpoint_stays=True))
    script.timer()
    return _recorded(script)


def _split() -> Recorded:
    """A job ran on two GPUs of one server, which is drained; elsewhere one is free on each."""
    script, splits = Script(), job_id("splits")
    script.submit("splits", 2, total_steps=10**6)
    script.step(AttemptStarted(0, splits, 1, keeps_split=True))
    for name in ("left", "right"):
        script.submit(name, 3, max_level=Level.server)
        script.start(job_id(name))
    node = script.core.state.jobs[splits].held.shares[0].node
    script.step(SuspendJob(0, splits))
    script.step(JobSuspended(0, splits, 1), GpusReleased(0, splits, 1))
    script.step(DrainNode(0, node))
    script.step(ReleaseJob(0, splits))
    script.idle()
    return _recorded(script)


def _displaced() -> Recorded:
    """Another job was found on the GPUs on which this one was to start."""
    script = Script()
    late, found = job_id("late"), job_id("found")
    script.submit("late", 4)
    script.submit("found", 4)
    (share,) = script.core.state.jobs[late].allocation.shares
    script.step(AllocationLearned(0, found, 1, allocation(**{share.node: share.gpu_mask})))
    script.step(LaunchFailed(0, late, 1, "withdrawn"))
    withdrawn = [type(event) for event in script.events].index(LaunchFailed) + 1
    return Recorded(script.events[:withdrawn], rebuilt(script.policy, script.core.rules))


def _lost() -> Recorded:
    """A job has just lost its server, and nobody has planned since."""
    script = Script()
    lost = script.submit("lost", 4)
    script.start(lost)
    script.step(AttemptLost(0, lost, 1, "its server is lost"))
    left = [type(event) for event in script.events].index(AttemptLost) + 1
    return Recorded(script.events[:left], rebuilt(script.policy, script.core.rules))


def _backs_off() -> Recorded:
    script, refused = Script(), job_id("refused")
    script.submit("refused")
    script.step(LaunchFailed(0, refused, 1, "no such folder"))
    return _recorded(script)


def _recorded(script: Script) -> Recorded:
    return Recorded(script.events, rebuilt(script.policy, script.core.rules))


def _awaits() -> Recorded:
    script = ProposedScript()
    script.step(submit(0))
    return script.recorded()


def _rejected() -> Recorded:
    script = ProposedScript()
    script.step(submit(0), submit(1))
    script.step(propose(0, allocation(n0=0b1111)))
    script.step(AttemptStarted(0, job_id(0), 1))
    script.step(propose(1, allocation(n0=0b1111)))
    return script.recorded()


SCENES: Mapping[str, Scene] = {
    "array_limit": Scene(_world("fifo", ARRAY), "j3", 20),
    "awaiting_proposal": Scene(_awaits, "j0"),
    "backing_off": Scene(_backs_off, "refused"),
    "backing_off, held by it": Scene(_world("fifo", FULL, HoldJob(10, J1, BACKING_OFF)), "j1", 50),
    "checkpoint_stays": Scene(_stays, "saver"),
    "checkpoint_unreachable": Scene(_unreachable, "saver"),
    "dependency": Scene(_world("fifo", AFTER), "j1", 50),
    "displaced": Scene(_displaced, "late"),
    "fragmented": Scene(_world("fifo", PIECES), "j1", 50),
    "gpu_type_unavailable": Scene(_gets_on_nowhere, "j0"),
    "gpus_quarantined": Scene(_world("fifo", ASIDE, QuarantineGpu(5, node_name(0), 1)), "j1", 50),
    "gpus_taken": Scene(_taken, "wide"),
    "held": Scene(_world("fifo", FULL, HoldJob(20, J1, "ana")), "j1", 50),
    "infeasible": Scene(_world("fifo", NOWHERE), "j0"),
    "locality_not_met": Scene(_world("fifo", APART), "j2", 50),
    "node_drained": Scene(_world("fifo", WIDE, DrainNode(5, node_name(0), "ana")), "j1", 50),
    "node_lost": Scene(_lost, "lost"),
    "proposal_rejected": Scene(_rejected, "j1"),
    "refused": Scene(_world("fifo", STRANGER), "j0"),
    "split_kept": Scene(_split, "splits"),
    "waiting_for_release": Scene(_world("las", LEAVES), "j1", 32),
    "waiting_for_round": Scene(_world("fifo", ROUNDS), "j0", 3),
}
