"""Hypothesis strategies for small simulated worlds, with people in them.

Instants are microseconds and tiny, so that a policy can be asked at every single one of them.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from shunter.backends.simulated import NO_SAMPLES, Costs, Failures, Samples
from shunter.core import (
    CancelJob,
    ChangePriority,
    Command,
    DrainNode,
    Guards,
    HoldJob,
    ReleaseJob,
    RestoreNode,
    SuspendJob,
)
from shunter.core.speeds import SpeedModel
from shunter.events import (
    Dependency,
    DependsWhen,
    GpuType,
    JobId,
    JobSpec,
    Level,
    NodeAdded,
    QuotaChanged,
    SuspendMode,
)
from shunter.workloads import JobEnd, TraceJob
from tests.factories import World, configuration, job_id, node_name, quota

HORIZON_US = 240


@dataclass(frozen=True)
class Scene:
    """A world, what people do in it, and how gangs are placed."""

    world: World
    commands: tuple[Command, ...]
    placement: str

    def __repr__(self) -> str:
        return shown(self)


def shown(record: Any) -> str:
    """Return a record without the fields that hold their default, recursively."""
    if isinstance(record, tuple):
        return f"({', '.join(map(shown, record))})"
    if not dataclasses.is_dataclass(record) or isinstance(record, type):
        return repr(record)
    told = [
        f"{field.name}={shown(value)}"
        for field in dataclasses.fields(record)
        if (value := getattr(record, field.name)) != field.default
    ]
    return f"{type(record).__name__}({', '.join(told)})"


@st.composite
def scenes(draw: st.DrawFn, *, by_event: bool | None = None) -> Scene:
    """Return any small scene; `by_event` fixes when decisions are made."""
    asks = draw(st.sampled_from(["gpus", "gpus", "gpus", "cpus", "levels"]))
    servers = draw(_servers(asks))
    jobs = draw(_jobs(asks, sum(server.configuration.gpus for server in servers)))
    if by_event is None:
        by_event = draw(st.booleans())
    world = World(
        servers=servers,
        jobs=jobs,
        queues=draw(_queues()),
        round_us=0 if by_event else draw(st.integers(2, 12)),
        costs=draw(_costs()),
        failures=draw(_failures(servers)),
        guards=draw(guards()),
        live_reactions=draw(st.sampled_from([False, False, True])),
        samples=draw(st.sampled_from([NO_SAMPLES, NO_SAMPLES, Samples(5, 0.1)])),
        speeds=draw(_speeds(servers)),
        until_us=HORIZON_US,
    )
    commands = draw(_commands(jobs, servers))
    return Scene(world, commands, draw(st.sampled_from(["consolidated", "spread", "first_fit"])))


@st.composite
def _servers(draw: st.DrawFn, asks: str) -> tuple[NodeAdded, ...]:
    types = draw(st.sampled_from([["v100"], ["v100"], ["v100", "k80"]]))
    found = []
    for number in range(draw(st.sampled_from([1, 1, 2, 2, 3, 6]))):
        gpus = draw(st.sampled_from([0 if asks == "cpus" and number else 1, 1, 2, 3, 4, 8]))
        found.append(
            NodeAdded(
                0,
                node_name(number),
                configuration(
                    gpus,
                    gpu_type=draw(st.sampled_from(types)) if gpus else "",
                    cpus_milli=draw(st.integers(1, 8)) * 1000 if asks == "cpus" else 0,
                    memory_mb=draw(st.integers(1, 8)) if asks == "cpus" else 0,
                    rack=draw(st.sampled_from(["", "r1", "r2"])) if asks == "levels" else "",
                ),
            )
        )
    return tuple(found)


@st.composite
def _jobs(draw: st.DrawFn, asks: str, most: int) -> tuple[TraceJob, ...]:
    submits = sorted(draw(st.lists(st.integers(0, 60), min_size=1, max_size=14)))
    twice = draw(st.booleans())
    return tuple(
        TraceJob(
            job_id(number),
            submit_us // 12 * 12 if twice else submit_us,
            draw(specs(asks, number, most)),
            draw(st.sampled_from([0, 1, 3, 9, 20, 21, 35, 50, 80])),
            draw(st.sampled_from([*[JobEnd.finished] * 6, JobEnd.failed, JobEnd.cancelled])),
        )
        for number, submit_us in enumerate(submits)
    )


@st.composite
def specs(draw: st.DrawFn, asks: str, number: int, most: int) -> JobSpec:
    gpus = min(draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 5, 8, 16])), most + 1)
    gpus = gpus if draw(st.integers(0, 19)) == 0 else min(gpus, most)
    extra = draw(
        st.sampled_from(["", "", "", "", "priority", "limit", "type", "needs", "never", "stop"])
    )
    fields: dict[str, object] = {"queue": draw(st.sampled_from(["a", "b", "default"]))}
    if asks == "cpus":
        gpus = draw(st.sampled_from([0, gpus]))
        fields["cpus_milli"] = draw(st.integers(0 if gpus else 1, 6)) * 1000
        fields["memory_mb"] = draw(st.integers(0, 6))
    if asks == "levels":
        fields["max_level"] = draw(st.sampled_from([None, Level.server, Level.rack]))
    if extra == "priority":
        fields["priority"] = draw(st.integers(-2, 2))
    if extra == "limit":
        fields["time_limit_us"] = draw(st.integers(1, 60))
    if extra == "type":
        fields["gpu_types"] = draw(
            st.sampled_from([("v100",), ("k80",), ("k80", "v100"), ("v100", "k80")])
        )
    if extra == "needs" and number:
        other = job_id(draw(st.integers(0, number - 1)))
        fields["depends_on"] = (Dependency(other, draw(st.sampled_from(DependsWhen))),)
    if extra == "never":
        fields["suspend_mode"] = SuspendMode.never
    if extra == "stop":
        fields |= {"suspend_mode": SuspendMode.stop, "total_steps": 10}
    if draw(st.integers(0, 5)) == 0:
        fields["retries"] = draw(st.integers(1, 2))
    if draw(st.integers(0, 3)) == 0:
        fields["checkpoint_interval_us"] = draw(st.integers(1, 10))
    return JobSpec(gpus, **fields)  # type: ignore[arg-type]  # chosen by name above


@st.composite
def _queues(draw: st.DrawFn) -> tuple[QuotaChanged, ...]:
    if draw(st.integers(0, 2)):
        return ()
    return tuple(quota(name, draw(st.integers(0, 12))) for name in draw(_some_queues()))


def _some_queues() -> st.SearchStrategy[list[str]]:
    return st.sampled_from([["a"], ["a", "b"], ["default"]])


def _costs() -> st.SearchStrategy[Costs]:
    cost = st.one_of(st.just(0), st.integers(0, 9))
    return st.one_of(st.just(Costs()), st.builds(Costs, cost, cost, cost, cost))


@st.composite
def _failures(draw: st.DrawFn, servers: tuple[NodeAdded, ...]) -> Failures:
    if draw(st.integers(0, 3)):
        return Failures()
    return Failures(
        racks={server.node: server.configuration.rack for server in servers},
        seed=draw(st.integers(0, 99)),
        mtbf_us=draw(st.sampled_from([40, 150])),
        mttr_us=draw(st.sampled_from([5, 30])),
        rack_mtbf_us=draw(st.sampled_from([0, 100])),
    )


def guards() -> st.SearchStrategy[Guards]:
    """Return guards: off, or any of them on."""
    return st.one_of(
        st.just(Guards()),
        st.just(Guards()),
        st.builds(
            Guards,
            st.sampled_from([0, 7, 25]),
            st.sampled_from([None, 1, 2]),
            st.sampled_from([None, 1, 15, 40]),
        ),
    )


def _speeds(servers: tuple[NodeAdded, ...]) -> st.SearchStrategy[SpeedModel | None]:
    model = SpeedModel(
        {server.node: server.configuration for server in servers},
        {GpuType("k80"): 0.5, GpuType("v100"): 1.5},
    )
    return st.sampled_from([None, None, None, model])


@st.composite
def _commands(
    draw: st.DrawFn, jobs: tuple[TraceJob, ...], servers: tuple[NodeAdded, ...]
) -> tuple[Command, ...]:
    """Return commands that are legal whenever they come: to jobs there are, in pairs."""
    found: list[Command] = []
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2, 4]))):
        found += draw(_order(jobs, servers))
    return tuple(sorted(found, key=lambda command: command.at_us))


@st.composite
def _order(
    draw: st.DrawFn, jobs: tuple[TraceJob, ...], servers: tuple[NodeAdded, ...]
) -> list[Command]:
    job = draw(st.sampled_from(jobs))
    at_us = draw(st.integers(job.submit_us, 120))
    until_us = at_us + draw(st.integers(0, 50))
    node = draw(st.sampled_from(servers)).node
    orders: list[list[Command]] = [
        [CancelJob(at_us, job.job_id)],
        [ChangePriority(at_us, job.job_id, draw(st.integers(-2, 2)))],
        [HoldJob(at_us, job.job_id), ReleaseJob(until_us, job.job_id)],
        [SuspendJob(at_us, job.job_id), ReleaseJob(until_us, job.job_id)],
        [DrainNode(at_us, node), RestoreNode(until_us, node)],
    ]
    return draw(st.sampled_from(orders))


def of_job(command: Command) -> JobId | None:
    """Return the job a command is about, if it is about one."""
    return getattr(command, "job_id", None)
