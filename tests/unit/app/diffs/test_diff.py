"""`shunter diff`, held against both logs read as lines of JSON and against their simulations."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from shunter.ask import Fact, changed_keys
from shunter.ask.diff import _without
from shunter.cli import app
from shunter.events import AllocationChanged
from shunter.run import simulate
from tests.factories import BECAUSE, allocation, job_id
from tests.unit.app.recounted import COSTS, MADE, Tree, recounted
from tests.unit.app.traces import config_of

PAIRS: dict[str, tuple[str | Tree, str | Tree]] = {
    "another policy": ("at once", {"policy": {"name": "srtf"}}),
    "notes": ({"policy": {"name": "tiresias"}}, "at once"),
    "in turns": ("in turns", {"policy": {"name": "fifo", "trigger": "event"}}),
    "shares": ({"policy": {"name": "gavel"}}, {"policy": {"name": "max_sum_throughput"}}),
    "promises": (
        {"policy": {"name": "fifo", "trigger": "event"}},
        {"policy": {"name": "fifo_easy", "trigger": "event"}},
    ),
    "another round": (
        {"policy": {"name": "las", "round": "60s"}, "simulation": COSTS},
        {"policy": {"name": "las", "round": "10m"}, "simulation": COSTS},
    ),
}
EFFECTS = ("AllocationChanged", "JobReshaped", "ReservationSet")


class Compared:
    """Two logs with their simulations, their events, and what `diff` says of them."""

    def __init__(self, factory: pytest.TempPathFactory, *trees: str | Tree) -> None:
        runs = [recounted(tree, factory) for tree in trees]
        self.urls, self.results = [run.url for run in runs], [run.result for run in runs]
        self.events = [run.events for run in runs]
        done = CliRunner().invoke(app, ["diff", *self.urls, "--json", "--jobs", "1000"])
        self.exit_code, self.document = done.exit_code, json.loads(done.stdout)
        self.text = CliRunner().invoke(app, ["diff", *self.urls]).stdout


def _decided(events: list[Tree]) -> dict[int, Counter[str]]:
    """Return what is decided at each instant, apart from why."""
    found: dict[int, Counter[str]] = {}
    for event in events:
        if event["kind"] in EFFECTS:
            what = {key: each for key, each in event.items() if key in ("allocation", "start_us")}
            key = json.dumps([event["kind"], event["job_id"], what], sort_keys=True)
            found.setdefault(event["at_us"], Counter())[key] += 1
    return found


@pytest.fixture(scope="module", params=PAIRS)
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory, *PAIRS[request.param])


def test_first_decision_is_that_of_the_first_instant_that_differs(compared: Compared) -> None:
    one, two = (_decided(events) for events in compared.events)
    at_us = min(at_us for at_us in sorted({*one, *two}) if one.get(at_us) != two.get(at_us))
    first = compared.document["first_decision"]

    assert first["at_us"] == at_us
    before = [sum(each.total() for at, each in found.items() if at < at_us) for found in (one, two)]
    assert before == [compared.document["alike"]["decisions"]] * 2
    for side, mine, theirs in (("a", one, two), ("b", two, one)):
        only = mine.get(at_us, Counter()) - theirs.get(at_us, Counter())
        assert len(first[f"only_{side}"]) == only.total()
    assert compared.exit_code == 6


def test_decisions_are_named_by_their_numbers_in_each_log(compared: Compared) -> None:
    first = compared.document["first_decision"]
    for side, events in zip("ab", compared.events, strict=True):
        for fact in first[f"only_{side}"]:
            recorded = events[fact["seq"] - 1]
            assert recorded["kind"] == fact["event"]["kind"]
            assert recorded["job_id"] == fact["event"]["job_id"]
            assert f"(e{first[side]['seq']})" in compared.text


def test_what_a_policy_saw_is_what_was_true_before_its_round(compared: Compared) -> None:
    first = compared.document["first_decision"]
    for side, events in zip("ab", compared.events, strict=True):
        seen = first["seen"][side]
        assert seen["policy"] == compared.results["ab".index(side)].document["policy"]
        before = events[: seen["seq"]]
        assert all(event["at_us"] <= first["at_us"] for event in before)
        rest = events[seen["seq"] :]
        if first[f"only_{side}"]:
            opens = {event["kind"] for event in rest[:2]}
            assert opens & {"RoundPlanned", "TargetsSet", "SizesSet"}
        has: dict[str, bool] = {}
        for event in before:
            if event["kind"] == "AllocationChanged":
                has[event["job_id"]] = bool(event["allocation"].get("shares"))
            elif event["kind"] == "JobFinished":
                has.pop(event["job_id"])
        if not seen["problem"]:
            assert seen["placed"] == sum(has.values())


def test_both_sides_know_the_same_before_they_decide(compared: Compared) -> None:
    first = compared.document["first_decision"]
    other_input = compared.document["first_input"]
    assert other_input is None or other_input["at_us"] > first["at_us"]
    known = [
        Counter(
            event["job_id"]
            for event in events[: first["seen"][side]["seq"]]
            if event["kind"] in ("JobSubmitted", "JobFinished")
        )
        for side, events in zip("ab", compared.events, strict=True)
    ]
    assert known[0] == known[1]
    seen = [first["seen"][side] for side in "ab"]
    if not seen[0]["problem"] and not seen[1]["problem"]:
        assert [seen[0][key] for key in ("waiting", "placed", "free")] == [
            seen[1][key] for key in ("waiting", "placed", "free")
        ]


def test_who_decides_nothing_there_is_looked_at_after_the_submissions_of_the_instant(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = tmp_path / "jobs.csv"
    rows = ["job_id,submit_s,gpus,duration_s", "a,0,3,600", "b,60,2,600", "c,60,1,60"]
    trace.write_text("\n".join([*rows, ""]), encoding="utf-8")
    tree = {"cluster": {"nodes": [{"name": "n", "gpus": 4}]}, "workload": {"trace": str(trace)}}
    fifo, easy = (
        {**tree, "policy": {"name": name, "trigger": "event"}} for name in ("fifo", "fifo_easy")
    )
    for trees in ((fifo, easy), (easy, fifo)):
        first = Compared(tmp_path_factory, *trees).document["first_decision"]
        seen = first["seen"]
        assert first["at_us"] == 60_000_000
        assert [seen[side]["queue"] for side in "ab"] == [["b", "c"]] * 2
        assert [seen[side]["free"] for side in "ab"] == [{"gpu": 1}] * 2


def test_why_names_the_cause(compared: Compared) -> None:
    first = compared.document["first_decision"]
    policies = [result.document["policy"] for result in compared.results]
    if policies[0] != policies[1]:
        assert first["why"].startswith("the same inputs, and another policy: ")
        assert all(f"{policy} 1" in first["why"] for policy in policies)
    else:
        assert first["why"] == "the same inputs and policy, configured otherwise: policy.round"
        assert first["config"] == {"policy.round": {"a": '"1m"', "b": '"10m"'}}


def test_measures_are_those_that_the_simulations_printed(compared: Compared) -> None:
    for measure in compared.document["measures"]:
        for side, result in zip("ab", compared.results, strict=True):
            value: Any = result.document
            for name in measure["name"].split("."):
                value = value[name]
            assert measure[side] == value, measure["name"]


def test_changes_of_jobs_are_those_of_their_ends(compared: Compared) -> None:
    took = []
    for events in compared.events:
        came = {
            event["job_id"]: event["at_us"] for event in events if event["kind"] == "JobSubmitted"
        }
        took.append(
            {
                event["job_id"]: (event.get("ended_us") or event["at_us"]) - came[event["job_id"]]
                for event in events
                if event["kind"] == "JobFinished"
            }
        )
    deltas = {name: (took[1][name] - took[0][name]) / 1e6 for name in took[0]}
    jobs = compared.document["jobs"]

    listed = {each["id"]: each["delta_s"] for each in (*jobs["lost_most"], *jobs["gained_most"])}
    assert listed == {name: delta for name, delta in deltas.items() if delta}
    assert [each["delta_s"] for each in jobs["lost_most"]] == sorted(
        (delta for delta in deltas.values() if delta > 0), reverse=True
    )
    assert (jobs["compared"], jobs["same"]) == (
        len(deltas),
        sum(not delta for delta in deltas.values()),
    )


def test_first_starts_are_compared_by_instant_and_gpus(compared: Compared) -> None:
    firsts = []
    for events in compared.events:
        found: dict[str, tuple[int, str]] = {}
        for event in events:
            if event["kind"] == "AllocationChanged" and event["allocation"].get("shares"):
                gpus = [
                    (share["node"], share["gpu_mask"]) for share in event["allocation"]["shares"]
                ]
                found.setdefault(event["job_id"], (event["at_us"], str(gpus)))
        firsts.append(found)
    if any(event["kind"] == "AttemptStarted" for event in compared.events[0]):
        return  # a start is when the GPUs are free, which no single event says
    same = sum(firsts[0][name] == firsts[1].get(name) for name in firsts[0])
    assert compared.document["first_starts"]["same"] == same


def test_a_log_is_the_same_as_itself(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = recounted("at once", tmp_path_factory)
    assert "the logs are the same, event by event" in run.told("diff", run.url, run.url)


def test_decisions_that_do_the_same_for_other_reasons_are_told(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    few = {"workload": {"generate": {**MADE, "jobs": 3, "load": 0.1}}}
    las, fifo = ({"policy": {"name": name}, **few} for name in ("las", "fifo"))
    found = Compared(tmp_path_factory, las, fifo)

    assert found.exit_code == 6
    assert found.document["first_decision"] is None
    rules = [found.document["first_reason"][side]["event"]["because"]["rule"] for side in "ab"]
    assert rules == ["las", "fifo"]
    assert "all 3 decisions do the same in both" in found.text


def test_other_inputs_are_the_cause_where_they_came_first(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    found = Compared(tmp_path_factory, "at once", {"policy": {"name": "las"}, "seed": 5})
    first, other = found.document["first_decision"], found.document["first_input"]

    assert first["why"].startswith(f"their inputs differ from {other['time']} on: ")
    assert other["at_us"] <= first["at_us"]
    assert found.document["jobs"]["other_jobs"] + found.document["jobs"]["compared"] <= 60


def test_order_within_an_instant_makes_no_difference() -> None:
    facts = [
        Fact(seq, AllocationChanged(7, job_id(seq), allocation(n1=1), BECAUSE), 1)
        for seq in range(3)
    ]
    assert _without(facts, facts[::-1]) == []


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_what_one_side_has_alone_is_the_difference_of_multisets(a: list[int], b: list[int]) -> None:
    one, two = (
        [Fact(i, AllocationChanged(7, job_id(n), allocation(n1=1), BECAUSE), 1) for i, n in items]
        for items in (enumerate(a), enumerate(b))
    )
    for side, mine, theirs in ((_without(one, two), a, b), (_without(two, one), b, a)):
        names = Counter(str(getattr(fact.event, "job_id", "")) for fact in side)
        assert names == Counter(map(job_id, mine)) - Counter(map(job_id, theirs))


def test_keys_that_differ_are_told_with_both_values() -> None:
    one = {"policy": {"name": "las", "round": "60s"}, "seed": 1}
    two = {"policy": {"name": "las", "round": "90s", "guards": {}}, "seed": 1}

    assert changed_keys(one, two) == {
        "policy.round": ('"60s"', '"90s"'),
        "policy.guards": ("", "{}"),
    }


def test_turns_are_told_where_they_alone_differ(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = Compared(tmp_path_factory, "in turns", {"policy": {"name": "las", "trigger": "event"}})

    first = found.document["first_decision"]
    assert first["field"]["name"].endswith("sharing")
    assert first["a"]["words"].endswith(", in turns")
    assert first["b"]["words"].endswith(", alone")
    assert first["a"]["words"] in found.text
    assert first["b"]["words"] in found.text


FIFO = "fifo, because it was ordered by submission alone"


def test_diff_of_runs_with_other_sizes_tells_them(tmp_path: Path) -> None:
    node = {"name": "n1", "gpus": 2, "cpus": 12, "memory_gb": 100}
    logs = [f"{tmp_path}/{sizing}.db" for sizing in ("proportional", "tune")]
    for sizing, url in zip(("proportional", "tune"), logs, strict=True):
        loaded = config_of(
            tmp_path,
            "job_id,submit_s,duration_s,gpus,model",
            "a,0,60,1,shufflenet",
            cluster={"nodes": [node]},
            workload={"sensitivity": "builtin:synergy"},
            policy={"name": "fifo", "sizing": sizing},
            log={"url": url},
        )
        simulate(loaded)
    said = " ".join(CliRunner().invoke(app, ["diff", *logs]).output.split())
    assert f"place a -> n1[0]: {FIFO}, with 6 CPUs and 50000 MB" in said
    assert f"place a -> n1[0]: {FIFO}, with 12 CPUs" in said
