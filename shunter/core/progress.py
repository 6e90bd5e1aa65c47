"""How work turns into time and back; simulator and state use these same two lines."""


def worked_us(elapsed_us: int, speed: float) -> int:
    """Return the work done in a time, in microseconds at base speed, rounded down."""
    return elapsed_us if speed == 1.0 else int(elapsed_us * speed)


def time_for_us(work_us: int, speed: float) -> int:
    """Return the time in which at least that much work gets done at a speed above 0."""
    if speed == 1.0:
        return work_us
    needed = int(work_us / speed)
    while worked_us(needed, speed) < work_us:
        needed += 1
    return needed
