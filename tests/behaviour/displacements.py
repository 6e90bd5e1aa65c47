"""Scenes of a live cluster in which the GPUs of a job turned out to be others'."""

from dataclasses import replace

from shunter.events import AllocationChanged, RoundPlanned
from tests.behaviour.waits_scenes import played
from tests.replay.recording import Recorded

_LIVE = "live; rounds of 10; launches take {0}; leaving takes 99; ending takes 99; servers 4 4"
_SIZED = f"{_LIVE}, cpus_milli=16000".format(99)
_BOTH = f"{_LIVE}; j0: 4 GPUs; j1: 4 GPUs"

DISPLACED = f"""
    {_BOTH.format(99)}; j0 is found on n1[0-3] at 10;
    j1 is gone at 30; strangers take n0[0-3] at 30; j2: 8 GPUs at 30
"""
"""Slurm gave j1's GPUs to j0, and others took those of n0."""
DISPLACED_FOR_CPUS = f"{_SIZED}; j0: 1 GPU, cpus_milli=8000; strangers take n0[0] and 12 CPUs at 10"
CPUS_TAKEN = f"""
    {_SIZED}; strangers take n0 and 12 CPUs at 0; strangers take n1 and 9 CPUs at 0;
    j0: 1 GPU at 10, cpus_milli=8000; until 20
"""
_GRANTED_GPUS_TAKEN = f"""
    {_BOTH.format(10)}; j2: 4 GPUs; ana suspends j0 at 11; strangers take n0[0-3] at 30
"""


def displaced_before_the_round() -> Recorded:
    recorded = played(DISPLACED)
    planned = next(s for s in recorded.seqs(RoundPlanned) if recorded.at(s).at_us == 30)
    return replace(recorded, events=recorded.events[: planned - 1])


def granted_gpus_taken() -> Recorded:
    """Return a log in which j2 is to get what j0 leaves on n0, and others take all of it."""
    recorded = played(_GRANTED_GPUS_TAKEN)
    changes = recorded.seqs(AllocationChanged)
    withdrawn = next(s for s in changes if recorded.at(s).because.rule == "displaced")
    return replace(recorded, events=recorded.events[:withdrawn])
