"""A log played on from a moment: under its own policy it is what happened, whatever the policy."""

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from shunter.ask.forks import (
    Counterfactuals,
    Scenario,
    ScenarioResult,
    Wishes,
    other_start,
    run_scenario,
)
from shunter.ask.forks.scenario import _is_told
from shunter.core import JobResult
from shunter.errors import ConfigError, UsageError
from shunter.events import Allocation, AllocationChanged, Event, JobId, SchedulerStarted
from shunter.events.log import read_log
from tests.factories import job_id, needs_highs
from tests.replay.truth.mixed_runs import RUNS, simulated_once
from tests.unit.app.forking.worlds import COSTS, SAMPLES, simulated, tree

COSTLY = {"simulation": {"costs": COSTS, "samples": SAMPLES}}
S = 1_000_000
ROUND_US = 60 * S


# Each solves a program of its own every round, which a run made again solves again.
SOLVED = (
    *("finish_time_fairness", "gavel-aware", "hierarchical", "makespan", "max_min_fairness"),
    *("max_min_fairness-in-pairs", "max_sum_throughput", "min_cost", "min_cost_slo"),
    "water_filling",
)


@needs_highs
@pytest.mark.parametrize("name", [name for name in RUNS if name not in SOLVED])
def test_same_policy_does_what_happened(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_same_policy(simulated_once(name, tmp_path_factory))


@needs_highs
@pytest.mark.rotating("name")
@pytest.mark.parametrize("name", SOLVED)
def test_same_policy_does_what_happened_whatever_program_it_solves(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_same_policy(simulated_once(name, tmp_path_factory))


def check_same_policy(url: str) -> None:
    played = run_scenario(Scenario(url, "e150"))

    assert len(played.stories) > 15
    assert dict(played.stories) == dict(played.recorded)
    assert played.is_certain


@pytest.mark.parametrize("name", ["fifo", "las", "tiresias", "fifo_easy"])
def test_same_policy_does_what_happened_from_the_state_alone(name: str, tmp_path: Path) -> None:
    url = simulated(tmp_path, tree(name))

    played = run_scenario(Scenario(url, "e100"))

    assert len(played.stories) > 10
    assert dict(played.stories) == dict(played.recorded)
    assert not any("made again" in each for each in played.assumptions)


@pytest.mark.parametrize("sections", [{}, COSTLY], ids=["state", "rerun"])
@pytest.mark.parametrize("trigger", ["round", "event"])
@pytest.mark.parametrize("name", ["fifo_easy", "las", "tiresias"])
def test_same_policy_does_what_happened_from_between_two_events(
    name: str, trigger: str, sections: dict[str, object], tmp_path: Path
) -> None:
    url = simulated(tmp_path, tree(name, policy={"name": name, "trigger": trigger}, **sections))
    instants = sorted({each.at_us for each in asyncio.run(events_of(url))})
    gaps = [pair for pair in pairwise(instants) if pair[1] - pair[0] > 10 * S]

    for before_us, after_us in Random(7).sample(gaps[: len(gaps) // 2], 3):
        at_us = (before_us + after_us) // 2 // S * S + S // 8
        played = run_scenario(Scenario(url, f"{at_us / S}s"))

        assert before_us < played.at_us == at_us < after_us
        assert len(played.stories) > 10
        assert dict(played.stories) == dict(played.recorded)


@pytest.mark.parametrize("sections", [{}, COSTLY], ids=["state", "rerun"])
def test_fork_begins_at_the_instant_asked_for(sections: dict[str, object], tmp_path: Path) -> None:
    """Goal: nobody has a new server, and no other policy decides, before it is there."""
    url = simulated(tmp_path, tree("fifo_easy", **sections))
    instants = sorted({each.at_us for each in asyncio.run(events_of(url))})
    early = [pair for pair in pairwise(instants) if pair[0] > 600 * S]
    before_us = next(first for first, then in early if then - first > 300 * S)
    at_us = before_us + 100 * S
    moment = f"{at_us / S}s"

    for wishes in (Wishes(added=("name=new[1-4],gpus=8,type=v100",)), Wishes(policy="srtf")):
        played = run_scenario(Scenario(url, moment, wishes))

        assert played.at_us == at_us
        starts = [each.first_start_us or 0 for each in played.stories.values()]
        assert not [each for each in starts if before_us < each < at_us]
        assert dict(played.stories) != dict(played.recorded)
    last = max(seq for seq, each in enumerate(asyncio.run(events_of(url)), 1) if each.at_us < at_us)
    assert run_scenario(Scenario(url, f"e{last}")).at_us == before_us


@pytest.mark.parametrize(
    "simulation",
    [
        {"failures": {"mtbf": "8h", "mttr": "30m"}},
        {"lease": {"end_seen": "at_lease_end", "credit": "at_grant"}},
        {"costs": COSTS, "reactions": "live", "failures": {"mtbf": "8h", "mttr": "30m"}},
    ],
)
def test_same_policy_does_what_happened_in_other_worlds(
    simulation: dict[str, object], tmp_path: Path
) -> None:
    url = simulated(tmp_path, tree("las", simulation=simulation))

    played = run_scenario(Scenario(url, "e150"))

    assert dict(played.stories) == dict(played.recorded)
    assert any("made again" in each for each in played.assumptions)


def test_another_policy_does_what_its_own_run_did_from_where_both_were_alike(
    tmp_path: Path,
) -> None:
    """Goal: it decides from the moment on, and not from the end of a step under way there."""
    urls = {}
    for name in ("las", "srtf"):
        (tmp_path / name).mkdir()
        urls[name] = simulated(tmp_path / name, tree(name, **COSTLY))
    las, srtf = (asyncio.run(events_of(url)) for url in urls.values())
    pairs = zip(given_in(las), given_in(srtf), strict=False)
    differs_us = next(one[0] for one, other in pairs if one != other)
    before = [seq for seq, each in enumerate(las, 1) if each.at_us < differs_us]
    moment = f"e{max(seq for seq in before if las[seq - 1].at_us % ROUND_US)}"

    played = run_scenario(Scenario(urls["las"], moment, Wishes(policy="srtf")))

    assert played.at_us == las[int(moment[1:]) - 1].at_us
    assert dict(played.stories) == dict(run_scenario(Scenario(urls["srtf"], moment)).recorded)
    assert dict(played.stories) != dict(played.recorded)


def given_in(events: Sequence[Event]) -> list[tuple[int, JobId, Allocation]]:
    """Return when which job was given what."""
    given = (event for event in events if isinstance(event, AllocationChanged))
    return [(event.at_us, event.job_id, event.allocation) for event in given]


async def events_of(url: str) -> list[Event]:
    async with read_log(url) as reader:
        return [event async for event in reader.events()]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a busy run under `fifo`, where nothing takes time."""
    return simulated(tmp_path_factory.mktemp("logs"), tree("fifo"))


def played_with(log: str, **wishes: object) -> ScenarioResult:
    asked = Wishes(**wishes)  # type: ignore[arg-type]  # by name above
    return run_scenario(Scenario(log, "e100", asked))


def mean_jct_us(played: ScenarioResult) -> float:
    return sum(story.jct_us or 0 for story in played.stories.values()) / len(played.stories)


def test_another_policy_decides_from_there(log: str) -> None:
    same, other = played_with(log), played_with(log, policy="srtf")

    assert other.policy == "srtf"
    assert other.is_oracle
    assert mean_jct_us(other) < mean_jct_us(same)
    assert set(other.stories) == set(same.stories)


def test_another_policy_can_take_turns_where_none_did(log: str) -> None:
    played = played_with(log, policy="gandiva", settings=("policy.slicing.quantum=60s",))

    assert set(played.stories) == set(played_with(log).stories)


def test_parameter_of_a_policy_counts(log: str) -> None:
    low = played_with(log, policy="las", settings=("las.queues_gpu_s=[60]",))
    high = played_with(log, policy="las", settings=('policy.params.las.queues_gpu_s=["90h"]',))

    assert dict(low.stories) != dict(high.stories)


def test_more_servers_end_jobs_sooner_and_fewer_later(log: str) -> None:
    same = played_with(log)
    more = played_with(log, added=("name=new[1-4],gpus=4,type=v100,rack=r1",))
    fewer = played_with(log, removed=("gpu[2-3]",))

    assert mean_jct_us(more) < mean_jct_us(same)
    assert fewer.unfinished or mean_jct_us(fewer) > mean_jct_us(same)


def test_a_table_is_left_out_where_no_value_is_given(log: str) -> None:
    """As room by moves is where gangs are placed by a rule that knows none."""
    settings = ("policy.placement=topology", "policy.topology.make_room.cost=10s")
    other = ("policy.topology.make_room=", "policy.placement=consolidated")
    plain = played_with(log, settings=(*settings, *other))
    assert plain.stories == played_with(log).stories
    with pytest.raises(ConfigError, match=r"make_room: expected policy\.placement = 'topology'"):
        played_with(log, settings=(*settings, other[1]))


def test_jobs_of_a_user_are_left_out(log: str) -> None:
    same = played_with(log)
    user = next(iter(same.stories.values())).user
    without = played_with(log, without=(user,))

    finished = {job for job, story in without.stories.items() if story.status == "finished"}
    others = {job for job, story in same.stories.items() if story.user != user}
    assert finished == others


@pytest.mark.parametrize(
    ("wishes", "error", "words"),
    [
        ({"policy": "lass"}, Exception, "lass"),
        ({"settings": ("las.queues=1",), "policy": "las"}, ConfigError, "las.queues"),
        ({"settings": ("policy.round",)}, ConfigError, "expected KEY=VALUE"),
        ({"settings": ("policy.rounds=60s",)}, ConfigError, "policy.rounds"),
        ({"settings": ("polcy.round=60s",)}, ConfigError, "of the policy that decides"),
        ({"settings": ("las.queues_gpu_s=[5]",)}, ConfigError, "such as fifo.KEY"),
        ({"settings": ("policy.params.las.queues_gpu_s=[5]",)}, ConfigError, "such as fifo.KEY"),
        ({"policy": "gandiva"}, ConfigError, "policy.slicing"),
        (
            {"policy": "las", "settings": ("policy.trigger=event", "las.queues_gpu_s=[]")},
            ConfigError,
            "expected policy.trigger = 'round'",
        ),
        (
            {"settings": ("policy.decentralised.schedulers=callers",)},
            ConfigError,
            "nobody calls in a simulation",
        ),
        ({"settings": ("policy=las",)}, ConfigError, "expected a key of the table"),
        ({"settings": ("policy=",)}, ConfigError, "expected a key of the table"),
        ({"settings": ("policy.name=",)}, Exception, "there is no policy ''"),
        ({"settings": ("policy.sizing=proportional",)}, ConfigError, "nodes.0: expected cpus"),
        ({"settings": ("policy.solve_limit=3s",)}, ConfigError, "only sizing 'opt' searches"),
        ({"policy": "min_cost"}, ConfigError, "min_cost.prices"),
        ({"added": ("gpu9",)}, ConfigError, "expected KEY=VALUE"),
        ({"added": ("name=gpu9,gpu=8",)}, ConfigError, "gpu"),
        ({"added": ("name=gpu1,gpus=4",)}, UsageError, "gpu1"),
        ({"added": ("name=x,gpus=4", "name=x,gpus=4")}, UsageError, "x is added twice"),
        ({"added": ("name=x,gpus=4,name=y",)}, ConfigError, "name is there twice"),
        ({"removed": ("gpu9",)}, UsageError, "there is no server gpu9"),
        ({"removed": ("gpu1,gpu9",)}, UsageError, "there is no server gpu9"),
        ({"removed": ("gpu[1",)}, ConfigError, "--remove-node gpu"),
        ({"removed": ("",)}, ConfigError, "--remove-node"),
        ({"without": ("nobody",)}, UsageError, "nobody"),
    ],
)
def test_wish_that_cannot_be_is_refused(
    log: str, wishes: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        played_with(log, **wishes)


def test_what_does_not_go_together_with_the_world_is_refused(tmp_path: Path) -> None:
    lease = {"end_seen": "at_lease_end", "credit": "at_grant"}
    url = simulated(tmp_path, tree("las", simulation={"lease": lease}))

    with pytest.raises(ConfigError, match="needs rounds"):
        run_scenario(Scenario(url, "e150", Wishes(settings=("policy.trigger=event",))))


def test_keys_of_another_kind_of_sizing_are_dropped_unless_they_are_asked_for() -> None:
    """A log records from which part on speeds correct a table, whether anybody set it or not."""
    policy = {"name": "fifo", "params": {}, "sizing": "tune", "correct_beyond": 0.1}
    started = SchedulerStarted(0, 1, "0", "fifo", "1", 0, json.dumps({"policy": policy}))

    def changed(*settings: str) -> dict[str, object]:
        other = other_start(started, Wishes(settings=settings))
        assert other is not None
        section: dict[str, object] = json.loads(other.config)["policy"]
        return section

    assert "correct_beyond" not in changed("policy.sizing=proportional")
    assert changed("policy.sizing=greedy")["correct_beyond"] == 0.1
    asked = changed("policy.sizing=proportional", "policy.correct_beyond=0.2")
    assert asked["correct_beyond"] == 0.2


@pytest.mark.parametrize(
    ("jct_s", "delta_s", "is_told"),
    [
        (1_000, 0.9, False),
        (1_000, -0.9, False),
        (1_000, 1.0, True),
        (50, 0.4, False),
        (50, -0.5, True),
        (0, 0.0, False),
        (0, 0.001, True),
    ],
)
def test_less_than_a_second_and_than_a_hundredth_is_nothing(
    jct_s: int, delta_s: float, is_told: bool
) -> None:
    before = JobResult(job_id(0), "ann", 1, 0, 0, jct_s * 1_000_000, 0, 0, 0, 0, "finished")
    assert _is_told(delta_s, before) is is_told


NOW_US = 58_519_000_000


@pytest.mark.parametrize(
    ("later_us", "told"),
    [
        (0, "T+16:15:19"),
        (1, "T+16:15:19"),
        (3, "T+16:15:19.000003"),
        (60_000_000, "T+16:16:19"),
    ],
)
def test_what_starts_at_once_starts_now(later_us: int, told: str) -> None:
    assert Counterfactuals((), now_us=NOW_US).clock_of(NOW_US + later_us) == told
