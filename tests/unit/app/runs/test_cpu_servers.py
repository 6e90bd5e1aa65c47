"""CPU servers as a kind of accelerator: who may be there, who is, and with which CPUs.

Goal: an objective of Gavel divides GPUs and units of CPU as its program says, worked out by hand,
and every other policy lets a job that accepts both run on either.
"""

import json
from pathlib import Path

import pytest

from shunter.config import LoadedConfig
from shunter.errors import ConfigError
from shunter.events import AllocationChanged, Event, JobRejected, Reason, RoundPlanned, TargetsSet
from shunter.run import simulate
from tests.unit.app.traces import Load, fitted, loader, verified

KEEN = {"v100": 10.0, "cpu": 1.0}
CALM = {"v100": 4.0, "cpu": 3.9}
FIXED = {"v100": 2.0}
RATES = {
    gpu_type: {f"('{model}', 1)": {"null": rates[gpu_type]} for model, rates in models}
    for gpu_type, models in (
        ("v100", [("keen", KEEN), ("calm", CALM), ("fixed", FIXED)]),
        ("cpu", [("keen", KEEN), ("calm", CALM)]),
    )
}
CONFIG = """\
[[cluster.nodes]]
name = "c"
gpus = 0
units = 1
type = "cpu"
cpus = 4
[[cluster.nodes]]
name = "g"
gpus = 1
type = "v100"
cpus = 8
[workload]
trace = "jobs.csv"
throughputs = "rates.json"
[policy]
name = "makespan"
round = "60s"
[log]
url = "log.db"
"""
NO_TABLE = CONFIG.replace('throughputs = "rates.json"\n', "")
HEAD = "job_id,submit_s,duration_s,gpus,model,total_steps,gpu_type,weight,cpus"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a config with these rows as its jobs."""
    monkeypatch.chdir(tmp_path)
    return loader(tmp_path, HEAD, CONFIG, json.dumps(RATES))


def run(loaded: LoadedConfig) -> tuple[dict[str, float], list[Event]]:
    """Return when each job ended, in seconds after its submission, and the log, which verifies."""
    ended: dict[str, float] = {
        story.job_id: (story.jct_us or 0) / 1e6 for story in simulate(loaded).stories()
    }
    return ended, verified(loaded)


def places(events: list[Event]) -> dict[str, tuple[str, int]]:
    """Return where each job ran first, and with how many CPUs in thousandths."""
    found: dict[str, tuple[str, int]] = {}
    for event in events:
        if isinstance(event, AllocationChanged) and event.allocation.shares:
            share = event.allocation.shares[0]
            found.setdefault(event.job_id, (share.node, share.cpus_milli))
    return found


def fractions(events: list[Event]) -> dict[tuple[str, str], float]:
    """Return the first targets, by job and type."""
    targets = next(event for event in events if isinstance(event, TargetsSet)).targets
    return {(each.jobs[0], each.gpu_type): each.fraction for each in targets}


def test_the_shortest_makespan_puts_the_model_that_minds_least_on_the_cpus(load: Load) -> None:
    """Both need 100 s so; any part of the other type would make one of them slower."""
    ended, events = run(load("k,0,100,1,keen,1000,,,\nc,0,97.5,1,calm,390,,,\n"))

    assert fractions(events) == pytest.approx({("k", "v100"): 1, ("c", "cpu"): 1}, abs=0.06)
    assert places(events) == {"k": ("g", 0), "c": ("c", 4000)}
    assert ended == pytest.approx({"k": 100.0, "c": 100.0})


def test_max_min_fairness_counts_units_as_one_more_type(load: Load) -> None:
    """Of the GPU, calm gets a and keen 1 - a; of the unit, the other way round.

    A job counts by its throughput over that of half a GPU and half a unit, 3.95 and 5.5, and its
    weight, 1 and 18/11: (3.9 + 0.1 a) / 3.95 = (10 - 9 a) / 9, so a = 4.4 / 36.45.
    """
    rows = f"k,0,1000,1,keen,10000,,{18 / 11},\nc,0,1000,1,calm,4000,,,\n"
    _, events = run(load(rows, policy__name="max_min_fairness"))

    part = 4.4 / 36.45
    wanted = {("k", "v100"): 1 - part, ("k", "cpu"): part}
    wanted |= {("c", "v100"): part, ("c", "cpu"): 1 - part}
    assert fractions(events) == pytest.approx(wanted, abs=1e-3)


POLICIES = ("fifo", "las", "tiresias", "srtf", "drf", "tetris", "fifo_easy", "max_sum_throughput")


@pytest.mark.parametrize("policy", [*POLICIES, "makespan", "two_level"])
def test_jobs_that_accept_both_run_on_either_and_others_on_gpus(load: Load, policy: str) -> None:
    rows = "a,0,100,1,calm,400,,,\nb,0,100,1,calm,400,,,\nf,1,50,1,fixed,100,,,\n"
    ended, events = run(load(rows, policy__name=policy))

    assert sorted(set(places(events).values())) == [("c", 4000), ("g", 0)]
    assert places(events)["f"] == ("g", 0)
    assert set(ended) == {"a", "b", "f"}


@pytest.mark.parametrize("sizing", ["proportional", "greedy", "tune"])
def test_sizing_leaves_units_their_cpus(load: Load, sizing: str) -> None:
    config = NO_TABLE.replace("cpus = 8", "cpus = 8\nmemory_gb = 64")
    config = config.replace("[policy]", 'sensitivity = "builtin:synergy"\n[policy]')
    rows = "a,0,50,1,res18,,v100|cpu,,\nb,0,50,1,res18,,v100|cpu,,\nd,1,9,1,gnmt,,cpu,,\n"
    ended, events = run(load(rows, config, policy__name="las", policy__sizing=sizing))

    assert {job: where for job, where in places(events).items() if job in "bd"} == {
        "b": ("c", 4000),
        "d": ("c", 4000),
    }
    assert ended["b"] == pytest.approx(50, rel=0.5)


def test_who_names_no_type_accepts_units_only_by_the_table(load: Load) -> None:
    rows = "a,0,9,1,calm,,,,\nb,0,9,1,fixed,,,,\nc,0,9,1,calm,,cpu,,\nd,0,9,0,,,,,2\n"
    assert fitted(load(rows)) == [("v100", "cpu"), ("v100",), ("cpu",), ()]
    assert fitted(load(rows, NO_TABLE)) == [("v100",), ("v100",), ("cpu",), ()]
    units_alone = "[[cluster.nodes]]" + NO_TABLE.split("[[cluster.nodes]]")[1] + "[workload]"
    units_alone += NO_TABLE.split("[workload]")[1]
    assert fitted(load(rows, units_alone)) == [(), (), ("cpu",), ()]


def test_the_type_of_units_that_is_named_must_be_in_the_table(load: Load) -> None:
    loaded = load("a,0,9,1,fixed,,cpu,,\n")
    with pytest.raises(ConfigError, match="has no throughput on cpu"):
        fitted(loaded)


def test_units_whose_cpus_a_cpu_job_has_are_not_given_away(load: Load) -> None:
    rows = "a,0,100,0,,,,,1\nb,1,50,1,,,cpu,,\n"
    ended, events = run(load(rows, NO_TABLE, policy__name="fifo"))

    assert ended == {"a": 100.0, "b": 169.0}
    rounds = [event for event in events if isinstance(event, RoundPlanned)]
    waits = [each.wait for planned in rounds for each in planned.waits]
    assert [wait and wait.reason for wait in waits] == [Reason.cpu_or_memory_short, None]


def test_a_job_that_accepts_only_units_is_refused_where_none_are(load: Load) -> None:
    config = NO_TABLE.replace('type = "cpu"', 'type = "arm"').replace("makespan", "fifo")
    _, events = run(load("a,0,9,1,,,cpu,,\nb,0,9,2,,,arm,,\n", config))

    refused = [(each.job_id, each.detail) for each in events if isinstance(each, JobRejected)]
    assert refused == [
        ("a", "no node has GPUs of type cpu"),
        ("b", "GPUs of one type in the cluster"),
    ]
