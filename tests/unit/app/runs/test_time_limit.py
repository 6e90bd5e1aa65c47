"""A simulated policy has a limit on the wall clock only if one is asked for."""

import asyncio
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.ask import Verdict, verify_log
from shunter.cli import app
from shunter.config import POLICIES
from shunter.events import Event, JobFinished, PolicySetAside
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.unit.app.conftest import Install

run = CliRunner().invoke
PLUGINS = "tests.unit.app.runs.plugin"
JOBS = "job_id,submit_s,gpus,duration_s\nfirst,0,1,600\nhang,120,1,60\nlater,300,1,60\n"


@pytest.fixture(autouse=True)
def _plugins(install: Install) -> None:
    names = {"hangs_in_plan": "HangsInPlan", "hangs_in_observer": "HangsInObserver"}
    install(POLICIES, **{key: f"{PLUGINS}:{name}" for key, name in names.items()})


def config(folder: Path, policy: str, more: str, limit: str = 'time_limit = "200ms"') -> Path:
    (folder / "jobs.csv").write_text(JOBS)
    path = folder / "run.toml"
    path.write_text(
        f'[[cluster.nodes]]\nname = "n0"\ngpus = 4\n[workload]\ntrace = "jobs.csv"\n'
        f'[policy]\nname = "{policy}"\n{limit}\n{more}\n[log]\nurl = "run.db"\n'
    )
    return path


async def decided_again(path: Path) -> tuple[list[Event], Verdict]:
    async with read_log(str(path)) as reader:
        events = [event async for event in reader.events()]
        return events, await verify_log(reader, rebuild)


@pytest.mark.parametrize("hook", ["plan", "observer"])
def test_simulation_with_a_time_limit_ends_with_one_line(tmp_path: Path, hook: str) -> None:
    done = run(app, ["simulate", str(config(tmp_path, f"hangs_in_{hook}", ""))])
    assert done.exit_code == 1
    [line] = done.stderr.splitlines()
    where = {"plan": "plan", "observer": "observer of JobSubmitted"}[hook]
    assert line.startswith(f"error: policy hangs_in_{hook} failed in {where}: PlanError: it took")
    assert "longer than policy.time_limit, 0.2 s" in line


@pytest.mark.parametrize("hook", ["plan", "observer"])
def test_policy_that_is_set_aside_is_recorded_and_verified(tmp_path: Path, hook: str) -> None:
    path = config(tmp_path, f"hangs_in_{hook}", 'on_fault = "isolate"')
    done = run(app, ["simulate", str(path)])
    assert done.exit_code == 0, done.stderr
    events, verdict = asyncio.run(decided_again(tmp_path / "run.db"))
    [aside] = [event for event in events if isinstance(event, PolicySetAside)]
    assert aside.cause.startswith({"plan": "plan:", "observer": "observer of"}[hook])
    assert [event.job_id for event in events if isinstance(event, JobFinished)] == ["first"]
    assert verdict.divergence is None
    assert verdict.state.policy_fault == f"set aside: {aside.cause}"


@pytest.mark.parametrize("limit", ["", 'time_limit = "60s"'])
def test_simulation_sets_a_timer_only_if_a_limit_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    path = config(tmp_path, "hangs_in_plan", "", limit)
    (tmp_path / "jobs.csv").write_text(JOBS.replace("hang,", "harmless,"))
    timers: list[tuple[float, ...]] = []
    monkeypatch.setattr(signal, "setitimer", lambda *timer: timers.append(timer))
    done = run(app, ["simulate", str(path)])
    assert done.exit_code == 0, done.stderr
    assert bool(timers) == bool(limit)
