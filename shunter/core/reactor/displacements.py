"""The facts that follow for jobs whose GPUs, CPUs or memory turn out to be others'."""

from collections.abc import Sequence
from dataclasses import replace

from shunter.core.state import Job
from shunter.events.facts.cluster import GpusTaken
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import AllocationLearned, ReshapeRefused
from shunter.events.kinds import Event
from shunter.events.values.allocation import NOTHING
from shunter.events.values.causes import DISPLACED


def displacements(fact: Event, displaced: Sequence[Job]) -> Sequence[Event]:
    """Let jobs wait again whose GPUs another job was found on, or others hold.

    Where others hold CPUs or memory too, it says how many GPUs and CPUs, and how many MB; where
    another job keeps what it was to give up, on which servers.
    """
    if isinstance(fact, AllocationLearned):
        because = replace(DISPLACED, beneficiaries=(fact.job_id,))
    elif isinstance(fact, ReshapeRefused):
        where = ", ".join(share.node for share in fact.kept)
        because = replace(DISPLACED, beneficiaries=(fact.job_id,), detail=where)
    else:
        assert isinstance(fact, GpusTaken), "nothing else displaces anybody"
        because = replace(DISPLACED, detail=fact.node)
        if fact.cpus_milli or fact.memory_mb:
            held = (fact.gpu_mask.bit_count(), fact.cpus_milli / 1000, fact.memory_mb)
            because = replace(because, scores=held)
    return [AllocationChanged(fact.at_us, job.job_id, NOTHING, because) for job in displaced]
