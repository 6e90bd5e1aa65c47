"""How Slurm ends jobs, in words: by its time limit, by scancel, by preemption, with a node."""

from shunter.backends.slurm.quantities import duration

SAYS_WHY = frozenset({"CANCELLED", "DEADLINE", "PREEMPTED", "TIMEOUT"})
"""Last states that say for what Slurm ended a job, which sends SIGTERM for all of them."""


def end_in_words(state: str, limit_s: float | None = None) -> str:
    """Return what ended a job, by its last state in Slurm.

    Args:
        state: such as TIMEOUT.
        limit_s: the job's time limit in Slurm, in seconds; None: not known.
    """
    if state == "TIMEOUT":
        return limit_in_words(limit_s)
    if state == "CANCELLED":
        return "it was cancelled in Slurm (scancel)"
    if state == "PREEMPTED":
        return "it was preempted in Slurm"
    return f"Slurm ended it: {state}"


def limit_in_words(limit_s: float | None) -> str:
    """Return that a job's time limit in Slurm ended it, in seconds (None: not known)."""
    of = "" if limit_s is None else f" of {duration(limit_s)}"
    return f"Slurm's time limit{of} ended it"


def signal_in_words(signal: str) -> str:
    """Return what is known of a job's end by the signal alone that announced it."""
    return f"Slurm sent it {signal}, and has not said why"
