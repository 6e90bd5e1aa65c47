"""From a config to a running cluster: log, term, replay, backend, recovery, in this order.

    log opened, term taken ─▶ state replayed ─▶ backend taken over ─▶ maps of servers asked for
        ─▶ what is true, and what to do ─▶ term and first decisions committed
        ─▶ open orders repeated ─▶ what others hold asked for ─▶ Site

Whatever dies in between, the next start does the same again.
"""

import json
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress

from shunter import __version__, clock
from shunter.backends.node import failpoint
from shunter.clock import wall_now
from shunter.config import LoadedConfig, PolicyRuntime, policy_runtime, record_of
from shunter.core import ENDING, EventLog, Health, Scheduler, State
from shunter.daemon.backends import LiveBackend, live_backend, refuse_other_attempts, root_of
from shunter.daemon.cluster_identity import STEP_US, History, Identity, TermClock, read_history
from shunter.daemon.command_broker import mark
from shunter.daemon.commands import Digests
from shunter.daemon.gpu_maps import ServerMap, ToldBySlurm, discover_maps
from shunter.daemon.past_jobs import LivePastJobs, past_jobs
from shunter.daemon.policy import PolicyProxy
from shunter.daemon.recovery import (
    holding,
    recall_taken_resources,
    recovery_of,
    tell_taken_resources,
)
from shunter.daemon.site import Site
from shunter.daemon.slurm import ask_places, read_noted_wirings
from shunter.errors import ConfigError, UsageError, first_error
from shunter.events import (
    ConfigurationSet,
    Event,
    JobId,
    NodeName,
    QueueName,
    encode_record,
    facts,
    number_of,
)
from shunter.events.log import LogWriter, WithoutLost, files_of, open_log, read_log
from shunter.run import sources_of

OPERATOR = "operator"
"""Who sets an attempt aside at the start of a daemon."""

PRIVATE = 0o600
"""The mode of a live log where the config names none: it holds the commands of all users."""


TIME_LIMIT_US = 60_000_000
"""How long one planning may take where the config does not say."""


@asynccontextmanager
async def open_site(
    loaded: LoadedConfig, set_aside: Collection[JobId] = (), resume: bool | WithoutLost = True
) -> AsyncIterator[Site]:
    """Open the cluster of a config: begin it, or go on where its log ends.

    Leaving the block lets go of the log and the backend; jobs run on. The attempts of jobs that are
    to be `set_aside` are not looked at. A log that has lost events is resumed `WithoutLost` ones.

    Raises:
        ConfigError: the config is of no live cluster, or takes away what jobs run on.
        LogError: the log cannot be written, or another scheduler writes it.
        BackendError: another scheduler rules where jobs run.
    """
    config = loaded.config
    url, mode = _log_of(loaded)
    with suppress(OSError):  # the log or the backend says what cannot be looked at
        if not any(file.exists() and file.stat().st_size for file in files_of(url)):
            # Before a log is made, which the next start would take for that of a new cluster.
            refuse_other_attempts(root_of(config.backend), "")
    async with open_log(url, durable=True, frame_events=None, resume=resume, mode=mode) as log:
        async with read_log(log) as reader:
            history = await read_history(reader)
        begins_us, instants = term_begin(history)
        runtime = policy_runtime(loaded, instant=False)
        failpoint("term taken")
        try:
            held, cluster_id = holding(history.state), history.identity.cluster_id
            async with live_backend(loaded, cluster_id, log.term, instants, held) as backend:
                failpoint("backend taken over")
                found = await backend.inventory(held)
                maps = await _maps(loaded, backend, history.state)
                opening = tuple(_opening(loaded, runtime, history, log.term, begins_us, maps))
                with (
                    closing(_asked(loaded, runtime, opening[0], history.state)) as asked,
                    past_jobs(log) as past,
                ):
                    core = Scheduler(
                        runtime.policy, runtime.rules, history.state, asked=asked, past=past
                    )
                    known = [*history.state.jobs, *(one["job"] for one in found)]
                    lost = _lost(log, past, known, begins_us)
                    aside = _setting_aside(set_aside, history.state, begins_us)
                    _emit(core, (*opening, *lost, *aside))
                    recovery = recovery_of(history.state, past, found, backend.unreachable)
                    core.take_in(begins_us, ())
                    events, effects = core.hand_on()
                    asked.keep(events)
                    await log.note_sources(sources_of(loaded.config.policy.name))
                    await _make_durable(log, events)
                    past.durable(log.seq)
                    mark("durable", events)
                    _recall(backend, history.state)
                    recovery.adopt(backend)
                    failpoint("adopted")
                    await recovery.settle(backend, begins_us)
                    failpoint("settled")
                    await backend.perform(effects, begins_us)
                    await tell_taken_resources(backend)
                    digests = Digests.below(root_of(config.backend))
                    site = Site(loaded, history.identity, core, past, asked, backend, log, digests)
                    site.strays, site.maps = recovery.unknown, maps
                    site.ended_unseen = recovery.ended
                    yield site
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors


def _log_of(loaded: LoadedConfig) -> tuple[str, int]:
    """Return the address and the mode of the log of a live cluster."""
    config = loaded.config
    if not config.backend.is_live:
        raise ConfigError(
            f"{loaded.source}: backend.kind = 'simulated': expected a kind that runs jobs"
        )
    return config.log.url, PRIVATE if config.log.permissions is None else config.log.permissions


async def _maps(
    loaded: LoadedConfig, backend: LiveBackend, state: State
) -> dict[NodeName, ServerMap]:
    """Return the map of each server.

    Of its nodes Slurm tells racks and domains, and pilots have noted the rest.
    """
    section, cluster = loaded.config.backend, loaded.config.cluster
    if section.kind != "slurm" or section.slurm is None:
        return await discover_maps(cluster, backend.agents, state)
    noted = read_noted_wirings(section.slurm, cluster.servers())
    told = ToldBySlurm(await ask_places(section.slurm), noted)
    return await discover_maps(cluster, {}, state, told)


def _emit(core: Scheduler, taken: Iterable[Event]) -> None:
    """Let the core take in facts that are nobody's decision."""
    core.view.open()
    for fact in taken:
        core.emit(fact)
    core.view.close()


def _asked(
    loaded: LoadedConfig, runtime: PolicyRuntime, started: Event, state: State
) -> PolicyProxy:
    """Return the policy of a term, in a process of its own."""
    assert isinstance(started, facts.SchedulerStarted), "a term opens with its start"
    limit_us = loaded.config.policy.time_limit or TIME_LIMIT_US
    return PolicyProxy(runtime.policy, started, encode_record(state), limit_us)


def _recall(backend: LiveBackend, state: State) -> None:
    """Say what an earlier term found of servers, and in the hands of others."""
    gone = (Health.unreachable, Health.lost)
    backend.recall([name for name, one in state.cluster.servers.items() if one.health in gone])
    recall_taken_resources(backend, state)


def term_begin(history: History) -> tuple[int, TermClock]:
    """Return when a term begins and its clock: now, and never before the log ends."""
    now_us, read_ns = history.identity.instant_us(wall_now()), clock.monotonic_ns()
    instants = TermClock(max(history.state.now_us + 1, now_us), read_ns)
    return instants.at_us if history.state.seq else 0, instants


def _opening(
    loaded: LoadedConfig,
    runtime: PolicyRuntime,
    history: History,
    term: int,
    at_us: int,
    maps: Mapping[NodeName, ServerMap],
) -> Iterator[Event]:
    """Yield the facts that open a term: who decides, and what of the config is new."""
    yield facts.SchedulerStarted(
        at_us=at_us,
        term=term,
        version=__version__,
        policy=runtime.policy.name,
        policy_version=runtime.policy.version,
        seed=loaded.config.seed,
        config=_record(loaded, history.identity),
        digests=tuple(loaded.table_digests()),
        cluster_id=history.identity.cluster_id,
        simulated=False,
    )
    behind_us = at_us - history.identity.instant_us(wall_now())
    if behind_us > STEP_US:  # the wall clock went back while nobody looked
        yield facts.ClockStepped(at_us, -behind_us)
    yield from _queues(loaded, history.state, at_us)
    servers = {name: each.configuration for name, each in maps.items()}
    yield from _nodes(loaded, servers, history.state, at_us)


async def _make_durable(log: EventLog, events: Sequence[Event]) -> None:
    """Append the facts of a start, and wait until they are durable."""
    log.append(events)
    mark("append", events)
    await log.commit()


def _lost(
    log: LogWriter, past: LivePastJobs, known: Sequence[str], at_us: int
) -> Iterator[facts.EventsLost]:
    """Yield the fact that events are lost, if their loss was accepted.

    Each may have been a submission, whose id is not given again: attempts of that job may be found.
    """
    if log.lost is not None:
        first, last = log.lost
        last_number = max([past.last_number, *map(number_of, known)])
        yield facts.EventsLost(at_us, first, last, last_number + 1 + last - first)


def _setting_aside(
    jobs: Collection[JobId], state: State, at_us: int
) -> Iterator[facts.JobHeld | facts.AttemptSetAside]:
    """Yield the facts that set attempts aside before anything of them is read.

    Raises:
        UsageError: a job is unknown, or has nothing that runs.
    """
    for job_id in jobs:
        job = state.jobs.get(job_id)
        if job is None or job.since_us is None:
            raise UsageError(f"--set-aside {job_id}: expected a job that holds GPUs by the log")
        if job.set_aside == job.attempt:
            continue
        if job.phase is not ENDING:
            yield facts.JobHeld(at_us, job_id, OPERATOR)
        yield facts.AttemptSetAside(at_us, job_id, job.attempt, OPERATOR)


def _record(loaded: LoadedConfig, identity: Identity) -> str:
    """Return the recorded config, which also says when time began."""
    document = json.loads(record_of(loaded, instant=False, workload=loaded.table_records()))
    document["origin"] = identity.origin.isoformat()
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _queues(loaded: LoadedConfig, state: State, at_us: int) -> Iterator[Event]:
    """Yield what changed of the queues; one that is gone has no bounds any more."""
    wanted = {
        QueueName(name): facts.QuotaChanged(
            at_us, QueueName(name), queue.quota_gpus, queue.weight, queue.users
        )
        for name, queue in sorted(loaded.config.queues.items())
    }
    for name in state.queues:
        wanted.setdefault(name, facts.QuotaChanged(at_us, name))
    for name, changed in wanted.items():
        before = state.queues.get(name)
        known = None if before is None else (before.quota_gpus, before.weight, before.users)
        if known != (changed.quota_gpus, changed.weight, changed.users):
            yield changed


def _nodes(
    loaded: LoadedConfig,
    wanted: Mapping[NodeName, ConfigurationSet],
    state: State,
    at_us: int,
) -> Iterator[Event]:
    """Yield what changed of the servers.

    Raises:
        ConfigError: one is gone or other than before, and jobs hold GPUs of it.
    """
    for name, server in state.cluster.servers.items():
        if server.health is Health.removed or wanted.get(name) == server.configuration:
            continue
        if server.decided or server.held:
            raise ConfigError(
                f"{loaded.source}: cluster.nodes: jobs run on {name}, which is gone from the "
                "config or other than before; put it back, drain it, and wait for them"
            )
        yield facts.NodeRemoved(at_us, name)
    for name, configuration in wanted.items():
        known = state.cluster.servers.get(name)
        is_there = known is not None and known.health is not Health.removed
        if not is_there or (known is not None and known.configuration != configuration):
            yield facts.NodeAdded(at_us, name, configuration)
