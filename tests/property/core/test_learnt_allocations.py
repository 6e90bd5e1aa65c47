"""The same hostile world where somebody else places jobs: they are found anywhere, in any order.

Any attempt under way may be found on any GPUs that its job accepts, whoever has them by the books,
and strangers take and leave any GPUs. After every step the books hold (`invariants.py`): no GPU has
two holders, and each is free, a job's, taken or quarantined. Who is displaced waits again or is
being withdrawn, and in the end all that follows is verified.
"""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from shunter.core import Job, JobPhase
from shunter.core.fold import may_launch
from shunter.events import (
    Allocation,
    AllocationChanged,
    AllocationLearned,
    Event,
    GpusTaken,
    JobId,
    NodeName,
    Share,
)
from tests.property.core.test_core_machine import COUNT, NODE_NAMES, NODES, Attempt, CoreMachine
from tests.slices import searched


class LearningMachine(CoreMachine):
    """Plays Slurm as well, which puts jobs where it likes."""

    may_be_displaced = True

    @precondition(lambda machine: machine.attempts)
    @rule(which=COUNT, data=st.data())
    def learn(self, which: int, data: st.DataObject) -> None:
        """Find an attempt somewhere."""
        key = list(self.attempts)[which % len(self.attempts)]
        found = data.draw(self._places(key))
        if found is None:
            return
        job_id, attempt = key
        before = self._phases()
        events = self._step(AllocationLearned(self.now_us, job_id, attempt, found))
        job = self.core.state.jobs[job_id]
        assert [(share.node, share.gpu_mask) for share in job.held.shares] == [
            (share.node, share.gpu_mask) for share in found.shares
        ], f"{job_id} is not where it was found"
        self._check_displaced(events, before)

    @rule(node=NODE_NAMES, mask=COUNT, cpus=COUNT)
    def take(self, node: NodeName, mask: int, cpus: int) -> None:
        """Let strangers hold some GPUs and CPUs of a server, and no others."""
        server = self.core.state.cluster.servers[node]
        before = self._phases()
        cpus_milli = min(cpus * 1000, server.configuration.cpus_milli)
        seen = GpusTaken(self.now_us, server.name, mask & server.all_gpus, cpus_milli=cpus_milli)
        events = self._step(seen)
        self._check_displaced(events, before)
        for job in self.core.state.jobs.values():
            is_to_start = job.phase is JobPhase.launching and not _was_found(job)
            assert not is_to_start or not any(
                share.node == node and share.gpu_mask & mask for share in job.allocation.shares
            ), f"{job.job_id} is to start where others are"

    def _phases(self) -> dict[JobId, JobPhase]:
        """Return the phases of all jobs; one that was found somewhere has started there."""
        return {
            name: JobPhase.running if _was_found(job) else job.phase
            for name, job in self.core.state.jobs.items()
        }

    def _places(self, key: Attempt) -> st.SearchStrategy[Allocation | None]:
        """Return anywhere that an attempt could be: as many GPUs as it asks for, of one type."""
        spec = self.core.state.jobs[key[0]].spec
        nodes = [
            added
            for added in NODES
            if not spec.gpus
            or (not spec.gpu_types or added.configuration.gpu_type in spec.gpu_types)
        ]
        kinds = sorted({added.configuration.gpu_type for added in nodes})

        def of_kind(kind: str) -> st.SearchStrategy[Allocation | None]:
            gpus = [
                (added.node, bit)
                for added in nodes
                if added.configuration.gpu_type == kind
                for bit in range(added.configuration.gpus)
            ]
            if len(gpus) < spec.gpus:
                return st.none()
            return st.permutations(gpus).map(lambda order: _on(order[: spec.gpus], spec.cpus_milli))

        if not spec.gpus:
            names = [added.node for added in nodes]
            part = spec.cpus_milli, spec.memory_mb
            return st.sampled_from(names).map(lambda node: Allocation((Share(node, 0, *part),)))
        return st.sampled_from(kinds).flatmap(of_kind)

    def _check_displaced(self, events: list[Event], before: dict[JobId, JobPhase]) -> None:
        """Whoever is displaced waits or is to end, and nobody waits for GPUs that are free."""
        state = self.core.state
        waits = [name for name in state.granted if may_launch(state, state.jobs[name])]
        assert not waits, f"{waits} could be launched"
        for event in events:
            if not isinstance(event, AllocationChanged) or event.because.rule != "displaced":
                continue
            name = event.job_id
            job = self.core.state.jobs[name]
            assert before[name] is not JobPhase.ending, f"{name} was ending"
            told = self.attempts.get((name, job.attempt))
            if before[name] in (JobPhase.launching, JobPhase.running):
                assert job.phase is JobPhase.suspending, f"{name} is {job.phase}"
                assert told == "leaving", f"the attempt of {name} is {told}"
            if before[name] is JobPhase.launching:
                assert not job.held.shares, f"{name} holds {job.held}"
                assert job.back_at_us is None, f"{name} backs off"


def _was_found(job: Job) -> bool:
    return job.phase is JobPhase.launching and job.learned == job.attempt


def _on(gpus: list[tuple[NodeName, int]], cpus_milli: int) -> Allocation:
    masks: dict[NodeName, int] = {}
    for node, bit in gpus:
        masks[node] = masks.get(node, 0) | 1 << bit
    return Allocation(tuple(Share(node, masks[node], cpus_milli) for node in sorted(masks)))


searched(80, stateful_step_count=40)(LearningMachine)
TestLearningMachine = LearningMachine.TestCase
