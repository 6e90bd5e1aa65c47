"""Numbers of things as people say them: 1 GPU, 2 GPUs, 1,000 GPUs, 2.5 CPUs."""

import signal


def counted(count: float, noun: str) -> str:
    """Return how many there are of something, whose plural ends in s."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def jobs_waiting(count: int) -> str:
    """Return how many jobs wait, as a clause."""
    return "1 job waits" if count == 1 else f"{count:,} jobs wait"


def signal_in_words(number: int) -> str:
    """Return a signal by its number and name: signal 9 (SIGKILL)."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:  # one of those for real-time programs, most of which have no name
        return f"signal {number}"
