"""A policy that thinks too long, ends its process or spins: the daemon lives, and says so."""

import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.api.serving import CONFIG, Served, awaited, environment

pytestmark = pytest.mark.live

PLUGIN = """
import ctypes, os, signal, time
from shunter.policies.fifo import Fifo
from shunter.policies.params import PolicyParams


class Policy:
    name, version, oracle = "plug", "1", False

    def __init__(self, inside):
        self.start, self.target = inside.start, inside.target
        self.advance, self.wake_at, self.settled = inside.advance, inside.wake_at, inside.settled
        self.inside = inside

    def observers(self, memory):
        found = dict(self.inside.observers(memory))
        for kind in list(found):
            if kind.__name__ == "JobSubmitted":
                found[kind] = self.heard(found[kind])
        return found

    def heard(self, tell):
        def told(event, view):
            self.fail("observer", event.spec.name)
            tell(event, view)
        return told

    def plan(self, memory, view, rng):
        for job in view.jobs.values():
            if not job.allocation.shares:
                self.fail("plan", job.spec.name)
        return self.inside.plan(memory, view, rng)

    def fail(self, hook, name):
        if name == hook + "-spin":
            while True:
                pass
        if name == hook + "-sleep":
            time.sleep(1e6)
        if name == hook + "-gil":
            ctypes.PyDLL(None).sleep(1_000_000)  # a call that keeps the lock of Python
        if name == hook + "-exit":
            os._exit(3)
        if name == hook + "-kill":
            os.kill(os.getpid(), signal.SIGSEGV)
        if name == hook + "-system":
            raise SystemExit(0)
        if name == hook + "-interrupt":
            raise KeyboardInterrupt
        if name == hook + "-slow":
            time.sleep(3)


class Plug:
    '''First in, first out, until it is given a job whose name says how to fail.'''

    name, oracle = "plug", False

    class Params(PolicyParams):
        pass

    @staticmethod
    def build(params, placement):
        return Policy(Fifo.build(Fifo.Params(), placement))
"""


@contextmanager
def serving(root: Path, limit: str = "5s") -> Iterator[Served]:
    """Run a daemon with the plugin for its policy."""
    plugin = root / "plugin"
    info = plugin / "plug-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[shunter.policies]\nplug = plug:Plug\n")
    (plugin / "plug.py").write_text(textwrap.dedent(PLUGIN))
    daemon = Plugged(root)
    policy = f'trigger = "event"\nname = "plug"\ntime_limit = "{limit}"'
    text = CONFIG.replace('trigger = "event"', policy)
    daemon.config.write_text(
        text.format(root=root, nodes="n0", server="", cpus=0, gpus=4), encoding="utf-8"
    )
    with daemon:
        yield daemon


class Plugged(Served):
    """A daemon, and commands, that find the plugin."""

    def start(
        self, file_bytes_most: int | None = None, options: Sequence[str] = (), **variables: str
    ) -> None:
        super().start(file_bytes_most, options, **self._found(), **variables)

    def run(self, *words: str, stdin: str = "", **variables: str) -> Any:
        return super().run(*words, stdin=stdin, **self._found(), **variables)

    def _found(self) -> dict[str, str]:
        return {"PYTHONPATH": f"{environment()['PYTHONPATH']}:{self.root}/plugin"}


def verified(served: Served) -> str:
    """Stop the daemon and decide its log again; return what that says."""
    assert served.end() == 0
    found = served.run("replay", "--verify", f"{served.root}/log.db")
    assert found.returncode == 0, found.stdout + found.stderr
    return str(found.stdout)


@pytest.mark.parametrize(
    ("hook", "how"), [("plan", "spin"), ("plan", "gil"), ("observer", "spin"), ("plan", "kill")]
)
def test_policy_that_never_answers_is_set_aside_and_jobs_run_on(
    tmp_path: Path, how: str, hook: str
) -> None:
    with serving(tmp_path) as served, served.client() as client:
        runs = client.submit(["sleep", "1000"])
        awaited(lambda: runs.state() == "running")
        client.submit(["true"], name=f"{hook}-{how}")
        fault = awaited(lambda: client.daemon()["policy_fault"])
        assert fault.startswith("set aside: ")
        limit = "took longer than policy.time_limit, 5 s"
        assert {"exit": "exit code 3", "kill": "SIGSEGV"}.get(how, limit) in fault

        assert runs.state() == "running"
        waits = client.submit(["true"])
        assert waits.state() == "waiting"
        awaited(lambda: "is set aside" in served.said())
        awaited(lambda: fault in served.run("why", waits.id).stdout)
        runs.cancel()
        awaited(lambda: runs.state() == "cancelled")
        assert "decisions" in verified(served)


def test_api_answers_while_a_policy_thinks_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, "60s") as served, served.client() as client:
        runs = client.submit(["sleep", "1000"])
        go, gone = tmp_path / "go", tmp_path / "gone"
        waits = f"until [ -e {go} ]; do sleep 0.1; done; touch {gone}"
        brief = client.submit(["sh", "-c", waits])
        awaited(lambda: (runs.state(), brief.state()) == ("running", "running"))
        stuck = client.submit(["true"], name="plan-spin")
        planning = awaited(lambda: client.daemon()["planning"])
        assert planning["hook"] == "plan"
        assert planning["limit_s"] == 60
        before = client.daemon()["seq"]
        for _ in range(5):
            begun_s = time.monotonic()
            assert {job["id"] for job in client.queue()["jobs"]} == {runs.id, brief.id, stuck.id}
            assert time.monotonic() - begun_s < 10
        awaited(lambda: "commands wait for it" in served.said())
        go.touch()
        awaited(gone.exists)
        time.sleep(1)  # one job has ended, and nothing is folded of that
        assert (client.daemon()["seq"], brief.state()) == (before, "running")
        assert client.daemon()["planning"]


def test_plan_that_comes_late_but_in_time_counts(tmp_path: Path) -> None:
    with serving(tmp_path, "60s") as served, served.client() as client:
        job = client.submit(["true"], name="plan-slow")
        awaited(lambda: job.state() == "finished")
        assert client.daemon()["policy_fault"] == ""
        verified(served)


@pytest.mark.parametrize("how", ["system", "interrupt"])
def test_policy_that_asks_to_end_the_process_is_only_noted(tmp_path: Path, how: str) -> None:
    with serving(tmp_path, "60s") as served, served.client() as client:
        job = client.submit(["true"], name=f"plan-{how}")
        kind = {"system": "SystemExit", "interrupt": "KeyboardInterrupt"}[how]
        assert kind in awaited(lambda: client.daemon()["policy_fault"])
        job.cancel()
        awaited(lambda: not client.daemon()["policy_fault"])
        verified(served)


def test_daemon_started_anew_asks_the_policy_again(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        with served.client() as client:
            job = client.submit(["true"], name="plan-exit")
            awaited(lambda: client.daemon()["policy_fault"])
            job.cancel()
        assert served.end() == 0
        served.start()
        with served.client() as client:
            assert client.daemon()["policy_fault"] == ""
            after = client.submit(["true"])
            awaited(lambda: after.state() == "finished")
        verified(served)
