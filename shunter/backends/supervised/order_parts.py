"""What the orders of all supervisors have in common, on this machine and on remote hosts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from signal import Signals

from shunter.backends.node.messages.attempt_records import a_job
from shunter.backends.node.messages.shapes import checked
from shunter.backends.node.messages.wire import Order, Rank
from shunter.backends.supervised.environment import filled, rank_environment
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError
from shunter.events.values.allocation import Share

__all__ = ["Limits", "check_startable", "contract_of", "order_of", "rank_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of supervisors: seconds, and bytes of output kept a rank."""

    cooperative_s: float = 60.0
    signal_s: float = 60.0
    restart_s: float = 10.0
    suspend_signal: int = 10
    grace_s: float = 10.0
    launch_s: float = 20.0
    heartbeat_deadline_s: float = 900.0
    sample_s: float = 10.0
    output_bytes_max: int = 1 << 30


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
    effect: Launch | Resume, limits: Limits, *, term: int, root: str, port: int, is_remote: bool
) -> Order:
    """Return the order of an attempt, without ranks and their GPUs."""
    return {
        "job": effect.job_id,
        "attempt": effect.attempt,
        "term": term,
        "placement": [(share.node, share.gpu_mask) for share in effect.allocation.shares],
        "ranks": [],
        "suspend": {
            "mode": effect.spec.suspend_mode.value,
            "signal": limits.suspend_signal,
            "cooperative_s": limits.cooperative_s,
            "signal_s": limits.signal_s,
            "restart_s": limits.restart_s,
        },
        "grace_s": limits.grace_s,
        "port": port,
        "sample_s": limits.sample_s,
        "output_bytes_max": limits.output_bytes_max,
        "heartbeat": {
            "path": f"{root}/heartbeat",
            "deadline_s": limits.heartbeat_deadline_s,
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
    limits: Limits,
    master: tuple[str, int],
    checkpoints: str,
) -> Mapping[str, str]:
    """Return what a rank finds in its environment whatever its submitter gave it.

    Args:
        effect: the launch that it is part of.
        number: its rank.
        gpus: the names of its GPUs.
        limits: of the backend.
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
    signal = Signals(limits.suspend_signal).name
    node, index = effect.allocation.shares[number].node, effect.spec.array_index
    return {
        **contract,
        "SHUNTER_NODE": node,
        "SHUNTER_SUSPEND_SIGNAL": signal,
        **({} if index is None else {"SHUNTER_ARRAY_INDEX": str(index)}),
    }
