"""What else is at work in the process of a run, and keeps it from going on exactly.

It is looked for as a run begins, and at its first boundaries: there trainers have put their signal
handlers in place. Nothing is imported for it; all looks of a run together take less than 1 ms.
Each finding is a warning to the owner, once.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.train import channel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    Warn = Callable[[str], None]

BOUNDARIES = 3
FRAMES_MOST = 200
PARENTS_MOST = 32
LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
ADAPTERS = "shunter.train.adapters"
CHECK = "shunter.train.check"  # has a run between a script and what it calls
SLURM = ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID")
_NOT_TRAINED = re.compile(r"val|test|eval|dev|predict", re.IGNORECASE)


class Surroundings:
    """Looks at what is beside a run, until it has passed its first boundaries."""

    def __init__(self, warn: Warn, environment: Mapping[str, str]) -> None:
        self._warn = warn
        self._environment = environment
        self._left = BOUNDARIES

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be looked at any more."""
        return not self._left

    def begin(self) -> None:
        """Look at the environment and at signal handlers, as the run begins."""
        left_over = slurm_left_over(self._environment)
        if left_over:
            self._warn(
                f"a job of Slurm that has not started this process is named in its environment "
                f"({', '.join(left_over)}): Lightning, submitit and others take ranks and signals "
                "from there; submit without these variables, or unset them"
            )
        self._look_at_signals(has_adapter=False)

    def boundary(self, *, takes_batches: bool) -> None:
        """Look at signal handlers, and the first time at who trains.

        Args:
            takes_batches: the run was asked for `run.batches` by now.
        """
        self._left -= 1
        stack = list(_callers())
        modules = [str(frame.f_globals.get("__name__", "")) for frame in stack[:FRAMES_MOST]]
        has_adapter = bool(modules) and modules[0].startswith(ADAPTERS)
        self._look_at_signals(has_adapter=has_adapter)
        if has_adapter or self._left != BOUNDARIES - 1:
            return
        if any(module.startswith(LIGHTNING) for module in modules):
            self._warn(
                "Lightning trains without Shunter's adapter, and puts back neither the order of "
                "its loaders nor the state of chance: a resumed run is another one; write "
                "`Trainer(callbacks=[suspension()])`, of `shunter.train.adapters.lightning`"
            )
        elif stack and not takes_batches:
            self._look_for_loaders(stack[0])

    def _look_at_signals(self, *, has_adapter: bool) -> None:
        name = self._environment.get(channel.SUSPEND_SIGNAL, "")
        asks = channel.number_of(name)
        if asks is not None:
            handler = signal.getsignal(asks)
            if _is_of_others(handler) and handler != channel.BELL.ring:
                self._warn(
                    f"{name}, with which Shunter may ask this job to leave, is handled by "
                    f"{whose(handler)}, which may end it before it has saved"
                )
        handler = signal.getsignal(signal.SIGTERM)
        owner = whose(handler)
        if not _is_of_others(handler) or asks == signal.SIGTERM or owner.startswith("__main__"):
            return
        if "jit_checkpoint" in owner:
            self._warn(
                "the Trainer saves by enable_jit_checkpoint when SIGTERM comes: that may be "
                "between the gradients and their step, from where it does not go on exactly; leave "
                "that option out, Shunter has it save before"
            )
        elif not has_adapter and not owner.startswith(LIGHTNING):
            self._warn(
                f"SIGTERM is handled by {owner}: where Shunter or Slurm ends this job by it, what "
                "happens is up to that"
            )

    def _look_for_loaders(self, frame: FrameType) -> None:
        """Warn of a DataLoader in the function that trains, which `run` has not."""
        loader = getattr(sys.modules.get("torch.utils.data"), "DataLoader", None)
        if not isinstance(loader, type):
            return
        found = {**frame.f_globals, **frame.f_locals}
        names = [name for name, value in found.items() if isinstance(value, loader)]
        trained = [name for name in names if not _NOT_TRAINED.search(name)]
        if trained:
            self._warn(
                f"`{trained[0]}` is a DataLoader, and nothing is taken from `run.batches`: a "
                f"resumed run begins its order again; write `in run.batches({trained[0]})`"
            )


def check_workers(warn: Warn, source: object) -> None:
    """Warn of workers that outlive a pass: nobody sees what they have drawn."""
    if getattr(source, "persistent_workers", False) and getattr(source, "num_workers", 0):
        warn(
            "workers outlive an epoch (persistent_workers=True): what a data set draws at random "
            "in them is not put back in a resumed run, only the order of the samples is"
        )


def slurm_left_over(environment: Mapping[str, str]) -> list[str]:
    """Return the variables of a job of Slurm that has not started this process."""
    found = [name for name in SLURM if name in environment]
    pid = channel.number_in(environment, "SLURM_TASK_PID", 0)
    return found if found and not (pid and pid in _parents()) else []


def whose(handler: Any) -> str:
    """Return the module and name of a signal handler."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if handler is None:
        return "code in C"
    named = handler if hasattr(handler, "__qualname__") else type(handler)
    return f"{getattr(named, '__module__', '?')}.{named.__qualname__}"


def _is_of_others(handler: Any) -> bool:
    ours = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler)
    return handler not in ours


def _callers() -> Iterator[FrameType]:
    """Yield the frames of those who train, the innermost first."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  what `inspect` calls, at its price
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name not in (__name__, "shunter.train.run") and not name.startswith(CHECK):
            yield frame
        frame = frame.f_back


def _parents() -> list[int]:
    """Return this process and those above it; as many as /proc tells."""
    found, pid = [os.getpid()], os.getppid()
    while pid > 1 and len(found) < PARENTS_MOST:
        found.append(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found
