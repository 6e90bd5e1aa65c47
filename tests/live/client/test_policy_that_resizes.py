"""A policy that gives jobs other sizes, on real processes: its plans become attempts of these."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.api.serving import CONFIG, Served, awaited
from tests.live.api.test_policy_time_limit import Plugged
from tests.live.client.test_elastic_jobs import COUNTS

pytestmark = pytest.mark.live

PLUGIN = """
from shunter.core.plan import Plan, Resize
from shunter.events.values import Allocation, Share
from shunter.events.values import Because
from shunter.policies.fifo import Fifo
from shunter.policies.params import PolicyParams


class Policy:
    name, version, oracle = "plug", "1", False

    def __init__(self, inside):
        self.inside = inside

    def __getattr__(self, name):
        return getattr(self.inside, name)

    def settled(self, memory):
        return False

    def plan(self, memory, view, rng):
        plan = self.inside.plan(memory, view, rng)
        more = [self.grown(job, view) for job in view.jobs.values() if job.phase == "running"]
        return Plan((*plan.changes, *filter(None, more)), plan.waits, plan.job_waits)

    def grown(self, job, view):
        if not job.submitted_spec.is_elastic:
            return None
        (share,) = job.allocation.shares
        server = view.cluster.servers[share.node]
        pool = view.pools[server.configuration.gpu_type]
        mask = share.gpu_mask | pool.free[server.position]
        if mask == share.gpu_mask:
            return None
        where = Allocation((Share(share.node, mask),))
        return Resize(job.job_id, where, Because("grow_into_idle", (share.gpus, where.gpus)))


class Plug:
    '''First in, first out; jobs that run take all that is free.'''

    name, oracle = "plug", False

    class Params(PolicyParams):
        pass

    @staticmethod
    def build(params, placement):
        return Policy(Fifo.build(Fifo.Params(), placement))
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A daemon whose policy grows jobs, on a node of four GPUs."""
    info = tmp_path / "plugin" / "plug-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[shunter.policies]\nplug = plug:Plug\n")
    (tmp_path / "plugin" / "plug.py").write_text(textwrap.dedent(PLUGIN))
    daemon = Plugged(tmp_path)
    text = CONFIG.replace('trigger = "event"', 'trigger = "event"\nname = "plug"')
    daemon.config.write_text(text.format(root=tmp_path, nodes="n0", server="", cpus=0, gpus=4))
    with daemon:
        yield daemon


def test_job_grows_onto_gpus_beside_those_it_has_by_the_plan_of_a_policy(served: Served) -> None:
    """It leaves GPU 0 for GPUs 0 to 3; too large a size is refused, and it goes on as it was."""
    with served.client() as client:
        bounded = client.submit(["python3", "-c", COUNTS, "150"], gpus_max=3, name="bounded")
        awaited(bounded.done)
        refused = client.events(kind="PlanRejected", job=bounded.id)["events"]
        assert refused, "four are more than it takes"
        assert "the job takes 1 to 3 GPUs, not 4" in refused[0]["detail"]
        assert len(bounded.describe()["attempts"]) == 1
        job = client.submit(["python3", "-c", COUNTS, "150"], gpus_max=4)
        awaited(job.done)
        assert job.state() == "finished"
        attempts = job.describe()["attempts"]
        assert [one["where"] for one in attempts] == ["n0[0]", "n0[0-3]"]
        (resized,) = client.events(kind="JobResized", job=job.id)["events"]
        assert (resized["gpus"], resized["by"]) == (4, ":policy")
        lines = [
            line.split()
            for number in (1, 2)
            for line in b"".join(client.logs(job.id, attempt=number)).decode().splitlines()
        ]
        assert [int(step) for _, step in lines] == list(range(1, 151))
        assert list(dict.fromkeys(gpus for gpus, _ in lines))[-1] == "4"
    assert served.end() == 0
    found = served.run("replay", "--verify", f"{served.root}/log.db")
    assert found.returncode == 0, found.stdout + found.stderr
