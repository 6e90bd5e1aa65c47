"""Why a job waits, runs, was preempted or ended: found in the log, and planned once more."""

__all__: list[str] = []
