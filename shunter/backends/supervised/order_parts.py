"""What the orders of all supervisors have in common, on this machine and on remote hosts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from signal import Signals
from typing import Protocol

from shunter.backends.node.messages.known import a_job
from shunter.backends.node.messages.shapes import checked
from shunter.backends.node.messages.wire import Order, Rank
from shunter.backends.supervised.environment import filled, rank_environment
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError
from shunter.events.values.allocation import Share

__all__ = ["Settings", "check_startable", "contract_of", "order_of", "rank_of"]


class Settings(Protocol):
    """What a backend is told of supervisors; durations in seconds."""

    @property
    def term(self) -> int: ...
    @property
    def cooperative_s(self) -> float: ...
    @property
    def signal_s(self) -> float: ...
    @property
    def restart_s(self) -> float: ...
    @property
    def suspend_signal(self) -> int: ...
    @property
    def grace_s(self) -> float: ...
    @property
    def heartbeat_deadline_s(self) -> float: ...
    @property
    def sample_s(self) -> float: ...
    @property
    def output_bytes_max(self) -> int: ...


def check_startable(effect: Launch | Resume) -> None:
    """Refuse what no supervisor could run.

    Raises:
        BackendError: its name names no folder, or it has no command.
    """
    job_id = effect.job_id
    if checked(job_id, a_job) is None:
        raise BackendError(f"job {job_id!r} cannot name a folder: use letters, digits, . _ -")
    if not effect.spec.command:
        raise BackendError(f"job {job_id} has no command to run")


def order_of(
    effect: Launch | Resume, settings: Settings, root: str, port: int, *, is_remote: bool
) -> Order:
    """Return the order of an attempt, without ranks and their GPUs."""
    return {
        "job": effect.job_id,
        "attempt": effect.attempt,
        "term": settings.term,
        "placement": [(share.node, share.gpu_mask) for share in effect.allocation.shares],
        "ranks": [],
        "suspend": {
            "mode": effect.spec.suspend_mode.value,
            "signal": settings.suspend_signal,
            "cooperative_s": settings.cooperative_s,
            "signal_s": settings.signal_s,
            "restart_s": settings.restart_s,
        },
        "grace_s": settings.grace_s,
        "port": port,
        "sample_s": settings.sample_s,
        "output_bytes_max": settings.output_bytes_max,
        "heartbeat": {
            "path": f"{root}/heartbeat",
            "deadline_s": settings.heartbeat_deadline_s,
            "is_remote": is_remote,
        },
    }


def rank_of(
    effect: Launch | Resume,
    share: Share,
    cpus: Iterable[int],
    environment: Mapping[str, str],
    tenants: Counter[int],
) -> Rank:
    """Return how a rank is run: on those CPUs that have the fewest tenants.

    Args:
        effect: the launch that it is part of.
        share: what it was given on its node.
        cpus: the numbers of the CPUs of that node.
        environment: the variables of its process.
        tenants: how many ranks each CPU has.
    """
    count = -(-share.cpus_milli // 1000)
    quietest = sorted(cpus, key=lambda cpu: (tenants[cpu], cpu))[:count]
    return {
        "argv": filled(effect.spec.command, environment),
        "env": dict(environment),
        "cpus": sorted(quietest) if count else list(cpus),
        "pinned": bool(count),
        "directory": effect.spec.directory or "/",
    }


def contract_of(
    effect: Launch | Resume,
    number: int,
    gpus: list[str],
    settings: Settings,
    master: tuple[str, int],
    checkpoints: str,
) -> Mapping[str, str]:
    """Return what a rank finds in its environment whatever its submitter gave it.

    Args:
        effect: the launch that it is part of.
        number: its rank.
        gpus: the names of its GPUs.
        settings: the backend's.
        master: the address and port at which ranks find each other.
        checkpoints: the folder of the job's checkpoints.
    """
    contract = rank_environment(
        job=effect.job_id,
        attempt=effect.attempt,
        is_resumed=isinstance(effect, Resume),
        rank=number,
        world=len(effect.allocation.shares),
        master=master,
        gpus=",".join(gpus),
        checkpoints=checkpoints,
    )
    signal = Signals(settings.suspend_signal).name
    node = effect.allocation.shares[number].node
    return {**contract, "SHUNTER_NODE": node, "SHUNTER_SUSPEND_SIGNAL": signal}
