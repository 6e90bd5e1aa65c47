"""Attempts of a server that share its GPUs in turns, whether or not a scheduler is there.

Below a root, `slices/SERVER/` holds what those who share the GPUs of a server need:

    lock            flock held by the one supervisor that rotates, whose attempt it names
    rotating        its sign of life, and the first number of its orders (`lock.py`)
    used            the time each had so far, for the next one that rotates
    JOB.ATTEMPT     a member: what it was given, its weight, the quantum
    JOB.ATTEMPT.answer  the last order about turns that it has carried out, and its GPUs

and the folder of an attempt a record `turn` with the same, and while its turn is being ended the
number of the order that ends it. The job reads it (`boundary.py`), and may spoil it for itself.

No process is there for this alone: one of the supervisors rotates (`rotator.py`), and each does
what it is told about its own attempt (`turns.py`). So turns outlive daemon and agent as
supervisors do, are fenced with them, and end with the last of them. If the one that rotates dies,
the next takes the lock, as it does when that one hangs (`lock.py`): everybody stands still, and
then the rule goes on from the times that were had. Times are microseconds of the monotonic clock.
Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

__all__ = ()
