"""`replay --break-on`, `--from` and `--speed`, held against the log as lines of JSON."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.ask import play
from shunter.cli import app
from shunter.config import make_config
from shunter.events.log import read_log
from shunter.run import simulate
from tests.doubles.virtual_clock import VirtualClock

Line = dict[str, Any]
run = CliRunner().invoke


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Line]]:
    url = str(tmp_path_factory.mktemp("run") / "run.db")
    simulate(
        make_config(
            {
                "cluster": {"nodes": [{"name": "n", "count": 3, "gpus": 4}]},
                "workload": {
                    "generate": {"kind": "philly-like", "jobs": 60, "load": 1.6, "gpus_max": 8}
                },
                "policy": {"name": "las"},
                "log": {"url": url},
            }
        )
    )
    lines = run(app, ["log", "export", url]).stdout.splitlines()
    return url, [json.loads(line) for line in lines]


def said(*arguments: str) -> Line:
    done = run(app, ["replay", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    document: Line = json.loads(done.stdout)
    return document


def gives(event: Line) -> bool:
    return event["kind"] == "AllocationChanged" and bool(event["allocation"].get("shares"))


def takes(event: Line) -> bool:
    return event["kind"] == "AllocationChanged" and not event["allocation"].get("shares")


def gpus_of(event: Line) -> int:
    shares = event.get("allocation", {}).get("shares", [])
    return sum(share["gpu_mask"].bit_count() for share in shares)


def on(event: Line, node: str) -> bool:
    return any(share["node"] == node for share in event["allocation"].get("shares", []))


MATCHES: dict[str, Callable[[Line], bool]] = {
    "submit": lambda event: event["kind"] == "JobSubmitted",
    "submit gpus=4": lambda event: (
        event["kind"] == "JobSubmitted" and event["spec"].get("gpus") == 4
    ),
    "start": gives,
    "start gpus>=4": lambda event: gives(event) and gpus_of(event) >= 4,
    "start node=n2": lambda event: gives(event) and on(event, "n2"),
    "start node=n2 gpus<2": lambda event: gives(event) and on(event, "n2") and gpus_of(event) < 2,
    "preempt": takes,
    "preempt rule=outranked job!=0": lambda event: takes(event) and event["job_id"] != "0",
    "finish": lambda event: event["kind"] == "JobFinished",
    "finish job=7": lambda event: event["kind"] == "JobFinished" and event["job_id"] == "7",
    "job=9": lambda event: event.get("job_id") == "9",
    "RoundPlanned": lambda event: event["kind"] == "RoundPlanned",
    "round reason=outranked": lambda event: (
        event["kind"] == "RoundPlanned"
        and any(
            (each["wait"] or {}).get("reason") == "outranked" for each in event.get("waits", [])
        )
    ),
}


@pytest.mark.parametrize("expression", MATCHES)
def test_replay_stops_at_the_first_event_that_matches(
    made: tuple[str, list[Line]], expression: str
) -> None:
    url, events = made
    seqs = [seq for seq, event in enumerate(events, 1) if MATCHES[expression](event)]

    found = said(url, "--break-on", expression)
    assert (found["stopped"]["seq"], found["seq"]) == (seqs[0], seqs[0])
    assert found["stopped"]["event"]["kind"] == events[seqs[0] - 1]["kind"]
    assert found["state_digest"] == said(url, "--to", f"e{seqs[0]}")["state_digest"]
    again = run(app, ["replay", url, "--break-on", expression, "--from", f"e{seqs[0]}", "--json"])
    assert again.exit_code == (0 if seqs[1:] else 3)
    assert not seqs[1:] or json.loads(again.stdout)["stopped"]["seq"] == seqs[1]


def test_it_can_stop_where_many_jobs_wait(made: tuple[str, list[Line]]) -> None:
    url, events = made
    waiting: dict[str, bool] = {}
    seq = 0
    while sum(waiting.values()) <= 2:
        event, seq = events[seq], seq + 1
        if event["kind"] == "JobSubmitted":
            waiting[event["job_id"]] = True
        elif event["kind"] == "AllocationChanged":
            waiting[event["job_id"]] = takes(event)
        elif event["kind"] == "JobFinished":
            del waiting[event["job_id"]]

    found = said(url, "--break-on", "waiting>2")
    assert found["seq"] == seq
    assert found["queue"]["jobs"] == 3


def test_people_are_told_what_it_stopped_at(made: tuple[str, list[Line]]) -> None:
    url, _ = made
    told = run(app, ["replay", url, "--break-on", "preempt"]).stdout
    assert "stopped  take everything from " in told
    assert "snapshots" not in told


def test_an_instant_says_where_to_stop_too(made: tuple[str, list[Line]]) -> None:
    url, events = made
    at_us = events[200]["at_us"]
    found = said(url, "--to", f"{at_us / 1e6}s")
    assert found["seq"] == max(seq for seq, each in enumerate(events, 1) if each["at_us"] <= at_us)


def test_speed_tells_every_event_in_order(made: tuple[str, list[Line]]) -> None:
    url, events = made
    done = run(app, ["replay", url, "--speed", "1000000000x", "--from", "e5", "--to", "e60"])
    told = [line.split("  ")[1] for line in done.stdout.splitlines() if line.startswith("T+")]
    assert told == [f"e{seq}" for seq in range(6, 61)]
    assert done.exit_code == 0
    assert all(event["job_id"] in done.stdout for event in events[5:60] if "job_id" in event)


def test_speed_keeps_the_pace_of_the_log(made: tuple[str, list[Line]]) -> None:
    """Method: a clock that jumps; each event is told when its time has come, and not before."""
    url, events = made
    clock = VirtualClock()
    told: list[tuple[int, int]] = []

    async def main() -> None:
        async with read_log(url) as reader:
            await play(
                reader,
                0,
                len(events),
                speed=100.0,
                show=lambda seq, event, state: told.append((event.at_us, clock.monotonic_ns())),
            )

    clock.run(main, idle_s=0.05)
    first_us, first_ns = told[0]
    for at_us, at_ns in told:
        assert abs((at_ns - first_ns) / 1e3 - (at_us - first_us) / 100) < 1e4
