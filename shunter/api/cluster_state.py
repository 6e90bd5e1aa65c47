"""The cluster at a point: its state as a document, a view for schedulers, a page for Prometheus."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shunter import __version__
from shunter.api.job_rows import TurnShares, in_order, job_row
from shunter.ask import Dated, job_state, told_apart, wait_to_count
from shunter.core import Health, Job, ProposalBook, Server, State
from shunter.daemon import Site
from shunter.events import Allocation, JobId, NodeName, Outcome, QueueName, Share, gpu_numbers

Places = dict[NodeName, dict[int, list[JobId]]]
"""By server and GPU, the jobs there; a job without GPUs stands at -1."""

NO_GPU = -1


NODE_STATES: Final = ("up", "drained", "not held", "unreachable", "lost")
"""The states of a server; only what is lost or unreachable should answer and does not."""


def server_state(server: Server, unheld: Collection[NodeName] = ()) -> str:
    """Return the state of a server; of those unheld nobody expects an answer."""
    if server.health is not Health.up:
        return "not held" if server.name in unheld else server.health.value
    return "drained" if server.drained else "up"


def nodes_of(state: State) -> list[dict[str, object]]:
    """Return every server that has not left, with its GPUs and jobs."""
    decided = _jobs_by_gpu(state, lambda job_id: state.jobs[job_id].allocation)
    held = _jobs_by_gpu(state, lambda job_id: state.jobs[job_id].held)
    return [
        _node(server, decided.get(server.name, {}), held.get(server.name, {}))
        for server in state.cluster.servers.values()
        if server.health is not Health.removed
    ]


def queues_of(state: State) -> list[dict[str, object]]:
    """Return the queues that were configured or used."""
    return [
        {
            "name": queue.name,
            "quota_gpus": queue.quota_gpus,
            "weight": queue.weight,
            "users": list(queue.users),
            "gpus": queue.gpus,
        }
        for _, queue in sorted(state.queues.items())
    ]


def state_document(state: State, dated: Dated) -> dict[str, object]:
    """Return what is true after the last event of a state, whatever time it is."""
    turns = TurnShares(state, state.now_us)
    return {
        "schema_version": 1,
        "seq": state.seq,
        "at": dated(state.now_us),
        "at_us": state.now_us,
        "term": state.term,
        "policy": state.policy,
        "rounds_planned": state.rounds_planned,
        "ended": {outcome.value: count for outcome, count in sorted(state.outcomes.items())},
        "queues": queues_of(state),
        "nodes": nodes_of(state),
        "jobs": [
            job_row(job, state, dated, turns=turns) for job in in_order(state.jobs.values(), {})
        ],
    }


def _jobs_by_gpu(state: State, allocation: Callable[[JobId], Allocation]) -> Places:
    places: Places = {}
    for job_id in state.jobs:
        for share in allocation(job_id).shares:
            there = places.setdefault(share.node, {})
            for bit in gpu_numbers(share.gpu_mask) or [NO_GPU]:
                there.setdefault(bit, []).append(job_id)
    return places


def _node(
    server: Server, decided: dict[int, list[JobId]], held: dict[int, list[JobId]]
) -> dict[str, object]:
    what = server.configuration
    jobs = dict.fromkeys(
        job_id for there in (held, decided) for on in there.values() for job_id in on
    )
    return {
        "name": server.name,
        "state": server_state(server),
        "gpu_type": what.gpu_type,
        "device": what.device,
        "gpus": [
            {
                "index": index,
                "state": _gpu_state(server, index, decided, held),
                "jobs": list(dict.fromkeys((*held.get(index, ()), *decided.get(index, ())))),
            }
            for index in range(what.gpus)
        ],
        "cpus": what.cpus_milli / 1000,
        "cpus_free": max(0, server.beside_free.cpus_milli) / 1000,
        "cpus_taken": server.taken_cpus_milli / 1000,
        "memory_mb": what.memory_mb,
        "memory_mb_free": max(0, server.beside_free.memory_mb),
        "memory_mb_taken": server.taken_memory_mb,
        "rack": what.rack,
        "domain": what.domain,
        "levels": [
            {"level": groups.level.value, "groups": [gpu_numbers(mask) for mask in groups.masks]}
            for groups in what.levels
        ],
        "links": [gpu_numbers(mask) for mask in what.links],
        "jobs": list(jobs),
    }


def _gpu_state(
    server: Server, index: int, decided: dict[int, list[JobId]], held: dict[int, list[JobId]]
) -> str:
    """Return what a GPU does; its next owner is decided before the last one leaves."""
    if held.get(index):
        stays = any(job_id in decided.get(index, ()) for job_id in held[index])
        return "used" if stays else "leaving"
    if decided.get(index):
        return "promised"
    if server.taken >> index & 1:
        return "taken"
    return "quarantined" if server.quarantined >> index & 1 else "free"


def view_document(state: State, dated: Dated) -> dict[str, object]:
    """Return what is free after the last event of a state."""
    return {
        "schema_version": 1,
        "version": state.seq,
        "at": dated(state.now_us),
        "servers": [_server(each) for each in state.cluster.servers.values() if each.is_up],
        "admitted": [_admitted(state.jobs[job_id], state) for job_id in state.proposals.admitted],
    }


def _server(server: Server) -> dict[str, object]:
    where = server.configuration
    return {
        "name": server.name,
        "gpu_type": where.gpu_type,
        "gpus": where.gpus,
        "free": server.offered,
        "cpus_free": max(0, server.beside_free.cpus_milli) / 1000,
        "memory_mb_free": max(0, server.beside_free.memory_mb),
        "rack": where.rack,
        "domain": where.domain,
        "levels": {groups.level.value: list(groups.masks) for groups in where.levels},
        "links": list(where.links),
    }


def _admitted(job: Job, state: State) -> dict[str, object]:
    demand, level = job.demand, job.demand.max_level
    return {
        "job_id": job.job_id,
        "user": job.spec.user,
        "queue": job.spec.queue,
        "gpus": demand.gpus,
        "gpu_types": list(demand.gpu_types),
        "cpus": demand.cpus_milli / 1000,
        "memory_mb": demand.memory_mb,
        "max_level": None if level is None else level.value,
        "shapes": [list(shape) for shape in demand.shapes],
        "rejected": state.proposals.rejected_in_a_row(job.job_id),
        "kept": masks_of(state.proposals.reserved.get(job.job_id, ())),
    }


def masks_of(shares: Iterable[Share]) -> dict[str, int]:
    """Return the masks of shares by server."""
    return {share.node: share.gpu_mask for share in shares}


# Labels of metrics are bounded: never jobs or users.

METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_STATES = (
    *("waiting", "suspended", "held", "granted"),
    *("launching", "running", "stopped", "suspending", "ending"),
)
BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """What is counted, and the page of it."""

    def __init__(self, site: Site) -> None:
        self._registry = CollectorRegistry()
        self._answers = Histogram(
            "shunter_http_request_seconds",
            "Time to the head of an answer, by route and kind of status.",
            ("route", "status"),
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._cluster = _Cluster(site)
        self._registry.register(self._cluster)

    def answered(self, route: str, status: str, seconds: float) -> None:
        """Count an answer."""
        self._answers.labels(route, status).observe(seconds)

    def page(self, followers: int) -> bytes:
        """Return the whole page."""
        self._cluster.followers = followers
        page: bytes = generate_latest(self._registry)
        return page


class _Cluster(Collector):
    """Reads the state at the moment it is asked."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.followers = 0

    def describe(self) -> Iterator[Metric]:
        """Name nothing beforehand: there is nothing to read yet."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        site = self._site
        info = GaugeMetricFamily(
            "shunter_info", "What runs; always 1.", labels=("version", "policy", "cluster")
        )
        info.add_metric((__version__, site.policy, site.cluster_id), 1)
        yield info
        yield GaugeMetricFamily("shunter_term", "The scheduler's term.", value=site.term)
        yield CounterMetricFamily(
            "shunter_events", "Durable events in the log.", value=site.committed
        )
        yield CounterMetricFamily(
            "shunter_rounds", "Rounds that were planned.", value=site.state.rounds_planned
        )
        yield GaugeMetricFamily(
            "shunter_stream_followers", "Clients that follow events.", value=self.followers
        )
        if site.slurm_silence is not None:
            yield GaugeMetricFamily(
                "shunter_slurm_answering",
                "Whether Slurm answers; while it does not, no job starts or leaves its queue.",
                value=int(not site.slurm_silence),
            )
        yield from self._jobs()
        yield from self._nodes()
        yield from self._queues()

    def _jobs(self) -> Iterator[Metric]:
        state, now_us = self._site.state, self._site.now_us()
        states, reasons, oldest_us = Counter(dict.fromkeys(_STATES, 0)), Counter[str](), now_us
        for job in state.jobs.values():
            states[job_state(job)] += 1
            wait = wait_to_count(job, state)
            if wait is not None:
                reasons[told_apart(wait, job.demand.gpu_types, state.cluster).value] += 1
                if job.waiting_since_us is not None:
                    oldest_us = min(oldest_us, job.waiting_since_us)
        yield GaugeMetricFamily(
            "shunter_policy_failing",
            "Whether the policy itself failed in the last round, so that nothing was decided.",
            value=int(bool(state.policy_fault)),
        )
        yield _labelled("shunter_jobs", "Jobs that have not ended.", "state", states)
        yield _labelled("shunter_jobs_waiting", "Why jobs wait.", "reason", reasons)
        yield GaugeMetricFamily(
            "shunter_longest_wait_seconds",
            "How long the job has waited that has waited longest.",
            value=(now_us - oldest_us) / 1e6,
        )
        family = CounterMetricFamily("shunter_jobs_ended", "Jobs that ended.", labels=("outcome",))
        for outcome in Outcome:
            family.add_metric((outcome.value,), state.outcomes.get(outcome, 0))
        yield family
        yield from _proposals(state.proposals)

    def _nodes(self) -> Iterator[Metric]:
        gpus = GaugeMetricFamily(
            "shunter_node_gpus",
            "GPUs of a server: all, those jobs run on, those given to jobs, those others hold.",
            labels=("node", "what"),
        )
        cpus = GaugeMetricFamily(
            "shunter_node_cpus",
            "CPUs of a server: all, those that are free, those others hold.",
            labels=("node", "what"),
        )
        memory = GaugeMetricFamily(
            "shunter_node_memory_bytes",
            "Memory of a server: all, what is free, what others hold.",
            labels=("node", "what"),
        )
        ups = GaugeMetricFamily("shunter_node_up", "Whether a server takes jobs.", labels=("node",))
        states = GaugeMetricFamily(
            "shunter_node_state",
            "1 for the state of a server, 0 for the others; 'not held': Slurm has not given it.",
            labels=("node", "state"),
        )
        unheld = self._site.unheld
        for server in self._site.state.cluster.servers.values():
            if server.health is Health.removed:
                continue
            gpus.add_metric((server.name, "all"), server.configuration.gpus)
            gpus.add_metric((server.name, "held"), server.held.bit_count())
            gpus.add_metric((server.name, "decided"), server.decided.bit_count())
            gpus.add_metric((server.name, "taken"), server.taken.bit_count())
            every, free, taken = (
                server.configuration.beside,
                server.beside_free,
                server.taken_beside,
            )
            for what, part in (("all", every), ("free", free), ("taken", taken)):
                cpus.add_metric((server.name, what), max(0, part.cpus_milli) / 1000)
                memory.add_metric((server.name, what), max(0, part.memory_mb) * 1_000_000)
            ups.add_metric((server.name,), int(server.is_up))
            now = server_state(server, unheld)
            for state in NODE_STATES:
                states.add_metric((server.name, state), int(state == now))
        yield gpus
        yield cpus
        yield memory
        yield ups
        yield states

    def _queues(self) -> Iterator[Metric]:
        """Yield what configured queues hold; others are one, since anybody may name one."""
        state, known = self._site.state, self._site.config.queue_names
        yield _labelled(
            "shunter_queue_gpus",
            "GPUs given to a queue's jobs; one that several of them share counts once.",
            "queue",
            gpus_by_queue(
                state, {name: name if name in known else "other" for name in state.queues}
            ),
        )


def gpus_by_queue(state: State, labels: Mapping[QueueName, str]) -> Counter[str]:
    """Return by label how many GPUs of the cluster are given to jobs of its queues.

    A GPU that jobs share counts once for a label; a quota counts it for each of them.

    Args:
        state: what is true.
        labels: those of all queues that the state knows.
    """
    masks: dict[tuple[str, NodeName], int] = {}
    for job in state.jobs.values():
        for share in job.allocation.shares:
            key = (labels[job.spec.queue], share.node)
            masks[key] = masks.get(key, 0) | share.gpu_mask
    given = Counter(dict.fromkeys(labels.values(), 0))
    for (label, _), mask in masks.items():
        given[label] += mask.bit_count()
    return given


def _proposals(book: ProposalBook) -> Iterator[Metric]:
    """Yield what became of proposals of gangs since the log began."""
    family = CounterMetricFamily(
        "shunter_gang_proposals", "Proposals of gangs, by what became of them.", labels=("outcome",)
    )
    family.add_metric(("approved",), book.approved)
    family.add_metric(("conflicted",), book.conflicts)
    family.add_metric(("rejected",), book.rejected - book.conflicts)
    yield family
    yield GaugeMetricFamily(
        "shunter_gang_conflict_rate",
        "The part of all proposals that wanted GPUs which were not free.",
        value=book.conflict_rate,
    )


def _labelled(name: str, what: str, label: str, values: Counter[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, what, labels=(label,))
    for value, count in sorted(values.items()):
        family.add_metric((value,), count)
    return family
