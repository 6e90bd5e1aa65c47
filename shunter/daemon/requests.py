"""What people ask of a running cluster, who they are, and what they get as answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shunter.core import Health, Server, State
from shunter.core.planning import unfit_for_sizes
from shunter.core.ranking import PRIORITY_MOST
from shunter.core.speeds import unfit_contract
from shunter.errors import NotFoundError, RefusedError, UsageError
from shunter.events import Dependency, Event, JobId, JobSpec, NodeName


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: proven by a socket's peer or a token, never claimed in a request."""

    user: str
    uid: int | None = None
    is_admin: bool = False
    is_proposer: bool = False


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as its owner describes it; whose it is, the connection says.

    A task that names no `array` is the first of one. `environment` are values the job gets and
    nobody else sees; the log holds none of them. `key` makes a submission happen once, however
    often it is sent: whoever sends a second one under the key gets the job of the first.
    `said_after` is what it depends on as it was said, where the first task of an array means all.
    """

    spec: JobSpec
    environment: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    said_after: tuple[Dependency, ...] = ()

    def check(self) -> None:
        """Refuse what no job can be.

        Raises:
            UsageError: a number is out of bounds, or a text cannot be told.
        """
        spec = self.spec
        for name, least, most in _BOUNDS:
            value = getattr(spec, name)
            if value is not None and not least <= value <= most:
                raise UsageError(f"{name} = {value}: expected a number from {least} to {most}")
        if (unfit := unfit_for_sizes(spec)) is not None:
            field, why = unfit
            raise UsageError(f"{field} = {getattr(spec, field)}: {why}")
        if (unfit := unfit_contract(spec)) is not None:
            field, why = unfit
            raise UsageError(f"{field}: {why}")
        if spec.min_speed is not None:
            if not spec.has_curve and not spec.model:
                raise UsageError(
                    f"min_speed = {spec.min_speed:g}: expected a curve that it is the floor "
                    "of, tolerance or shape_tolerance, or a model whose curve is learnt"
                )
            if spec.max_level is not None and spec.tolerance:
                raise UsageError(
                    "max_level and min_speed with tolerance both say how far apart its GPUs may "
                    "be: expected one of them"
                )
        if not spec.command or not spec.command[0]:
            raise UsageError("command is empty: expected a program and its arguments")
        if any("\0" in word for word in (*spec.command, spec.directory)):
            raise UsageError("command or directory holds a NUL character, which no program can get")
        for shape in spec.shapes:
            if not all(count > 0 for count in shape) or sum(shape) != spec.gpus:
                split = "+".join(map(str, shape)) or "nothing"
                raise UsageError(
                    f"shape {split}: expected GPUs a server that make up the {spec.gpus} of the job"
                )
        texts = {name: getattr(spec, name) for name in ("name", "queue", "group", "model")}
        for name, text in {**texts, "key": self.key}.items():
            if len(text) > _TEXT_MOST or not (text.isprintable() or not text):
                raise UsageError(f"{name}: expected {_TEXT_MOST} printable characters at most")


_TEXT_MOST = 200
_INT = 2**31 - 1
_TIME = 2**53
_BOUNDS = (
    ("gpus", 0, _INT),
    ("gpus_min", 1, _INT),
    ("gpus_max", 1, _INT),
    ("cpus_milli", 0, _INT),
    ("memory_mb", 0, _INT),
    ("priority", -PRIORITY_MOST, PRIORITY_MOST),
    ("weight", 1e-9, 1e9),
    ("time_limit_us", 1, _TIME),
    ("deadline_us", 0, _TIME),
    ("checkpoint_interval_us", 1, _TIME),
    ("batch_size", 1, _INT),
    ("total_steps", 1, _TIME),
    ("array_index", 0, _INT),
    ("at_once", 1, _INT),
    ("retries", 0, _INT),
)


def no_such_job(job_id: str, knows: Callable[[JobId], bool], purpose: str = "") -> str:
    """Return that there is no job of an id, and which may have been meant."""
    is_other = job_id.isdigit() and knows(JobId(f"j{job_id}"))
    meant = f": did you mean j{job_id}?" if is_other else ""
    return f"there is no job {job_id}{purpose}{meant or '; `shunter queue` lists them'}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a command: its step is durable, its effects are on their way.

    `events` are those of the step about the command's job or server, `seq` is the step's last.
    """

    seq: int
    at_us: int
    events: tuple[Event, ...]


def server_for(
    state: State,
    node: NodeName,
    by: Caller,
    gpu: int | None = None,
    *,
    is_quarantined: bool = False,
) -> Server:
    """Return a server that a caller takes out of service, or puts back.

    Args:
        state: of the cluster.
        node: the server.
        by: the caller.
        gpu: the GPU of it that is meant; None: the whole server.
        is_quarantined: whether that GPU must be quarantined now, or must not be.
    Raises:
        NotFoundError: there is no such server, or GPU.
        RefusedError: the caller may not, or it is so already.
    """
    server = state.cluster.servers.get(node)
    if server is None or server.health is Health.removed:
        raise NotFoundError(f"there is no node {node}; `shunter nodes` lists them")
    if not by.is_admin:
        raise RefusedError(
            f"only admins may drain or restore nodes and their GPUs, and {by.user} is none"
        )
    if gpu is None:
        return server
    gpus = server.configuration.gpus
    if not 0 <= gpu < gpus:
        raise NotFoundError(f"node {node} has no GPU {gpu}: it has {gpus}, counted from 0")
    if bool(server.quarantined >> gpu & 1) != is_quarantined:
        how = "is not quarantined" if is_quarantined else "is quarantined already"
        raise RefusedError(f"GPU {gpu} of node {node} {how}")
    return server
