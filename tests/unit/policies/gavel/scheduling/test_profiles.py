"""A cluster without a table: types count the same until samples of running jobs come."""

from collections.abc import Sequence
from itertools import groupby

from shunter.core import Backend, Effect, Input, Launch, Resume
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import SpeedModel
from shunter.events import GpuType, JobId, ProfileSampled, TargetsSet
from shunter.policies.gavel import Gavel
from tests.factories import Outcome, World, node_added, run, trace_job

MINUTE_US = 60_000_000
K80, V100 = GpuType("k80"), GpuType("v100")
BATCH_S = {("keen", "v"): 0.1, ("keen", "k"): 1.0, ("calm", "v"): 0.5, ("calm", "k"): 0.5}


class Profiling:
    """Lets every attempt say how long its mini-batches take, once it has been launched."""

    def __init__(self, backend: Backend) -> None:
        self.instant = backend.instant
        self._backend = backend
        self._due: list[ProfileSampled] = []

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        for effect in effects:
            if isinstance(effect, Launch | Resume):
                node = effect.allocation.shares[0].node
                batch_s = BATCH_S[effect.spec.model, str(node)]
                self._due.append(
                    ProfileSampled(now_us + 1, effect.job_id, effect.attempt, 1, batch_s)
                )
        await self._backend.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        if not self._due:
            return await self._backend.observe(until_us, gather_us)
        now_us, inputs = await self._backend.observe(self._due[0].at_us, 0)
        due = [sample for sample in self._due if sample.at_us <= now_us]
        del self._due[: len(due)]
        return now_us, (*inputs, *due)


def played() -> Outcome:
    nodes = (node_added("v", 1, gpu_type="v100"), node_added("k", 1, gpu_type="k80"))
    world = World(
        servers=nodes,
        jobs=tuple(trace_job(name, lasts=30 * MINUTE_US, model=name) for name in ("keen", "calm")),
        round_us=MINUTE_US,
        speeds=SpeedModel({node.node: node.configuration for node in nodes}, {}),
    )
    params = Gavel.Params.model_validate({"turn": "1m", "objective": "max_sum_throughput"})
    policy = Gavel.build(params, PLACEMENTS["consolidated"]())
    return run(world, policy, wrapped=Profiling)


def shares(targets: TargetsSet) -> dict[tuple[JobId, GpuType], float]:
    return {(target.jobs[0], target.gpu_type): target.fraction for target in targets.targets}


def test_types_count_the_same_until_a_job_was_measured_on_both() -> None:
    found = [shares(each) for each in played().of(TargetsSet)]

    first = found[0]
    assert {round(part, 6) for part in first.values()} == {0.5}
    assert len([key for key, _ in groupby(found)]) > 1


def test_measured_jobs_go_where_they_are_faster() -> None:
    both = [each for each in played().of(TargetsSet) if len({t.jobs for t in each.targets}) == 2]

    last = shares(both[-1])
    assert last[JobId("keen"), V100] > 0.99
    assert last[JobId("calm"), K80] > 0.99
