"""The page Prometheus reads: gauges from the state as it is, and what the API itself did.

Labels are bounded: servers, queues, policies, reasons, states and routes, never jobs or users.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shunter import __version__
from shunter.api.documents.cluster_state import STATES as NODE_STATES
from shunter.api.documents.cluster_state import server_state
from shunter.ask.waits import job_state, told_apart, wait_to_count
from shunter.core.cluster import Health
from shunter.core.state import ProposalBook, State
from shunter.daemon.site import Site
from shunter.events.facts import Outcome
from shunter.events.values import NodeName, QueueName

METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
STATES = (
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
        states, reasons, oldest_us = Counter(dict.fromkeys(STATES, 0)), Counter[str](), now_us
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
