"""`replay`, `log` and `why` as commands on a log file: output, exit codes, damage."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shunter.ask import fold_events
from shunter.cli import app
from shunter.core import State
from shunter.events import (
    AllocationChanged,
    Event,
    GpusReleased,
    JobSubmitted,
    NodeName,
    RoundPlanned,
    SchedulerStarted,
)
from shunter.events.log import open_log, read_log
from shunter.run import RunDocument, sources_of
from tests.replay.golden_runs import run

BOUNDS_GPU_US = (3_600_000_000, 72_000_000_000)

run_command = CliRunner().invoke


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunDocument]:
    """Return the log of a small run with preemptions and costs, and the run's document."""
    path = tmp_path_factory.mktemp("logs") / "las.db"
    return path, run("las-costs", str(path))


@pytest.fixture
def log(made: tuple[Path, RunDocument]) -> Path:
    return made[0]


@pytest.fixture
def copy(log: Path, tmp_path: Path) -> Path:
    """Return a copy of the log that may be spoiled."""
    path = tmp_path / "copy.db"
    with sqlite3.connect(log) as source, sqlite3.connect(path) as target:
        source.backup(target)
    return path


def command(*arguments: object) -> Result:
    return run_command(app, [str(argument) for argument in arguments])


def said(*arguments: object) -> Any:
    """Return the JSON that a command prints, alone on stdout."""
    done = command(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def events_of(path: Path) -> list[Event]:
    async def read() -> list[Event]:
        async with read_log(str(path)) as reader:
            return [event async for event in reader.events()]

    return asyncio.run(read())


def written(path: Path, events: list[Event], sources: dict[str, str] | None = None) -> Path:
    """Write events to a log with a chain of its own, as a forger would."""

    async def write() -> None:
        async with open_log(str(path)) as log:
            if sources is not None:
                await log.note_sources(sources)
            log.append(events)

    asyncio.run(write())
    return path


def test_replay_finds_the_digest_that_the_simulation_printed(
    made: tuple[Path, RunDocument],
) -> None:
    path, document = made

    found = said("replay", path)

    assert found["state_digest"] == document["state_digest"]
    assert found["log"]["digest"] == document["log"]["digest"]
    assert found["seq"] == document["events"]


def test_replay_compares_every_snapshot(log: Path) -> None:
    snapshots = said("log", "stats", log)["snapshots"]

    assert said("replay", log)["snapshots_checked"] == len(snapshots) > 3
    assert said("replay", log, "--verify")["snapshots_checked"] == len(snapshots)


def test_replay_verify_decides_everything_again(
    made: tuple[Path, RunDocument],
) -> None:
    path, document = made

    found = said("replay", path, "--verify")["verification"]

    assert found["identical"] is True
    assert found["decisions"] == document["rounds"]["planned"]


def test_replay_stops_at_any_event(log: Path) -> None:
    last = said("log", "stats", log)["events"]
    for seq in range(1, last, 37):
        assert said("replay", log, "--to", seq)["seq"] == seq
    assert said("replay", log, "--to", f"e{last}")["seq"] == last


def test_people_get_a_table_on_stdout_only(log: Path) -> None:
    done = command("replay", log, "--verify")

    assert "all identical" in done.stdout
    assert done.stderr == ""


def test_a_flipped_decision_is_exit_code_6(log: Path, tmp_path: Path) -> None:
    events = events_of(log)
    at = next(
        i
        for i, event in enumerate(events)
        if isinstance(event, AllocationChanged) and event.allocation.gpus == 1
    )
    event = events[at]
    assert isinstance(event, AllocationChanged)
    share = replace(event.allocation.shares[0], node=NodeName("gpu3"))
    events[at] = replace(event, allocation=replace(event.allocation, shares=(share,)))
    forged = written(tmp_path / "forged.db", events)

    done = command("replay", forged, "--verify", "--json")

    assert command("log", "verify", forged).exit_code == 0
    assert done.exit_code == 6
    found = json.loads(done.stdout)["verification"]["divergence"]
    assert (found["seq"], found["field"]) == (at + 1, "allocation.shares[0].node")
    assert found["recorded"]["allocation"]["shares"][0]["node"] == "gpu3"
    assert f"diverged at decision {found['decision']} (e{at + 1}" in done.stderr


def test_a_divergence_shows_what_the_policy_saw_and_how_it_ranked(
    log: Path, tmp_path: Path
) -> None:
    """Under the same version, rank and view are the first hints: both are folded once more here."""
    events = events_of(log)
    at = [i for i, event in enumerate(events) if isinstance(event, AllocationChanged)][25]
    event = events[at]
    assert isinstance(event, AllocationChanged)
    events[at] = replace(event, because=replace(event.because, rule="forged"))
    state = State()
    fold_events(state, events[:at])
    forged = written(tmp_path / "forged.db", events, {"shunter": "0" * 32})

    done = command("replay", forged, "--verify", "--json")

    found = json.loads(done.stdout)["verification"]["divergence"]
    seen = found["seen"]
    free = {name: pool.gpus_free for name, pool in state.cluster.pools.items()}
    assert seen["free"] == free
    assert seen["waiting"] == sum(job.is_eligible for job in state.jobs.values())
    assert seen["placed"] == sum(bool(job.allocation.shares) for job in state.jobs.values())
    (rank,) = (each for each in seen["ranks"] if each["id"] == event.job_id)
    used_gpu_us = state.jobs[event.job_id].service_us(event.at_us)
    assert rank["score"] == [sum(used_gpu_us >= bound for bound in BOUNDS_GPU_US)]
    assert "GPU-" in rank["words"]
    assert f"  rank      {event.job_id} " in done.stderr
    assert f"{seen['waiting']} jobs wait" in done.stderr


def test_a_divergence_says_whether_the_code_was_changed(log: Path, tmp_path: Path) -> None:
    events = events_of(log)
    at = next(i for i, event in enumerate(events) if isinstance(event, AllocationChanged))
    event = events[at]
    assert isinstance(event, AllocationChanged)
    events[at] = replace(event, because=replace(event.because, rule="forged"))
    ours = sources_of("las")
    told = []
    for number, sources in enumerate((ours, {"shunter": "0" * 32}, None)):
        forged = written(tmp_path / f"{number}.db", events, sources)
        told.append(command("replay", forged, "--verify").stderr)

    assert f"shunter: the same code, {ours['shunter'][:12]}" in told[0]
    assert "shunter: the code was changed, 000000000000 -> " in told[1]
    assert "not recorded with this term" in told[2]


def test_a_run_notes_the_code_that_decided(log: Path) -> None:
    async def noted() -> Any:
        async with read_log(str(log)) as reader:
            return await reader.sources()

    assert asyncio.run(noted()) == {1: sources_of("las")}


@pytest.mark.parametrize(
    ("changed", "code", "text"),
    [
        ({"policy_version": "9"}, 2, "las version 9, and version 1 is installed"),
        ({"config": "{}"}, 2, "the config recorded in the log cannot be read"),
    ],
)
def test_a_policy_of_other_rules_is_not_compared(
    log: Path, tmp_path: Path, changed: dict[str, str], code: int, text: str
) -> None:
    events = events_of(log)
    start = events[0]
    assert isinstance(start, SchedulerStarted)
    wrong = replace(start, **changed)  # type: ignore[arg-type]  # texts for texts
    other = written(tmp_path / "other.db", [wrong, *events[1:]])

    done = command("replay", other, "--verify")

    assert (done.exit_code, done.stdout) == (code, "")
    assert text in done.stderr
    assert command("replay", other).exit_code == 0


def test_an_unknown_policy_is_not_found_but_the_log_is_read(log: Path, tmp_path: Path) -> None:
    events = events_of(log)
    start = events[0]
    assert isinstance(start, SchedulerStarted)
    config = start.config.replace('"las"', '"mine"')
    other = written(tmp_path / "other.db", [replace(start, config=config), *events[1:]])

    done = command("replay", other, "--verify")

    assert done.exit_code == 3
    assert "there is no policy 'mine'" in done.stderr
    assert command("why", "3", "--log", other).exit_code == 0


def test_an_empty_log_is_nothing_that_is_true(tmp_path: Path) -> None:
    empty = written(tmp_path / "empty.db", [])

    assert said("replay", empty)["jobs"]["submitted"] == 0
    assert said("replay", empty, "--verify")["verification"]["decisions"] == 0
    assert said("log", "stats", empty)["events"] == 0
    assert command("why", "1", "--log", empty).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["replay", "nowhere.db"], 3, "there is no log"),
        (["replay", "{log}", "--to", "99999"], 2, "there is no event 99999"),
        (["replay", "{log}", "--to", "soon"], 2, "an event number"),
        (["replay", "{log}", "--verify", "--speed", "9x"], 2, "leave --from, --speed"),
        (["replay", "{log}", "--from", "e7"], 2, "--from goes with --speed or --break-on"),
        (["replay", "{log}", "--speed", "0"], 2, "such as 100x"),
        (["replay", "{log}", "--speed", "9x", "--json"], 2, "leave --json out"),
        (["replay", "{log}", "--break-on", ""], 2, "--break-on is empty"),
        (["replay", "{log}", "--break-on", "prempt"], 2, "did you mean preempt?"),
        (["replay", "{log}", "--break-on", "start gpu>3"], 2, "did you mean gpus?"),
        (["replay", "{log}", "--break-on", "start gpus>many"], 2, "gpus is a number"),
        (["replay", "{log}", "--break-on", "start user>ann"], 2, "user is no number"),
        (["replay", "{log}", "--break-on", "start 8"], 2, "'8' is no condition"),
        (["replay", "{log}", "--break-on", "start 'x"], 2, "close the quotes"),
        (["replay", "{log}", "--break-on", "start job=none"], 3, "look elsewhere"),
        (["replay", "{log}", "--resolve"], 2, "--resolve goes with --verify"),
        (["replay", "memory:"], 3, "nothing to read"),
        (["replay", "postgres://x"], 2, "no log can be kept"),
        (["log", "stats", "nowhere.db"], 3, "there is no log"),
        (["log", "schema", "nowhere.db"], 3, "there is no log"),
        (["why", "99", "--log", "{log}"], 3, "the nearest are"),
        (["why", "1", "--log", "{log}", "--at", "soon"], 2, "no instant"),
        (["why", "1", "--log", "nowhere.db"], 3, "there is no log"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    log: Path, arguments: list[str], code: int, text: str
) -> None:
    done = command(*(argument.format(log=log) for argument in arguments))

    assert (done.exit_code, done.stdout) == (code, "")
    assert text in done.stderr


Spoil = Callable[[sqlite3.Connection], object]


def flip_a_bit(database: sqlite3.Connection) -> None:
    (payload,) = database.execute("select payload from frames where first_seq = 1").fetchone()
    data = bytearray(payload if isinstance(payload, bytes) else payload.encode())
    data[len(data) // 2] ^= 1
    database.execute("update frames set payload = ? where first_seq = 1", (bytes(data),))


def cut_a_frame(database: sqlite3.Connection) -> None:
    database.execute("delete from frames where first_seq = (select max(first_seq) from frames)")


def change_a_snapshot(database: sqlite3.Connection) -> None:
    database.execute("update snapshots set state = substr(state, 1, 40)")


@pytest.mark.parametrize("spoil", [flip_a_bit, cut_a_frame, change_a_snapshot])
@pytest.mark.parametrize("verb", [["replay"], ["replay", "--verify"], ["log", "verify"]])
def test_damage_is_exit_code_1_with_a_sequence_number(
    copy: Path, spoil: Spoil, verb: list[str]
) -> None:
    with sqlite3.connect(copy) as database:
        spoil(database)
    database.close()

    done = command(*verb, copy)

    assert (done.exit_code, done.stdout) == (1, "")
    assert "sequence number" in done.stderr


@pytest.mark.parametrize("verb", [["replay"], ["log", "stats"], ["log", "verify"]])
def test_a_log_of_a_newer_schema_is_exit_code_2(copy: Path, verb: list[str]) -> None:
    with sqlite3.connect(copy) as database:
        database.execute("update meta set value = '99' where name like '%schema%'")
    database.close()

    assert command(*verb, copy).exit_code == 2


def test_log_verify_can_hold_events_to_the_schema(log: Path) -> None:
    found = said("log", "verify", log, "--schema")

    assert (found["sound"], found["held_to_schema"]) == (True, True)
    assert command("log", "verify", log).stdout.startswith("sound: ")
    assert found["digest"] == said("log", "stats", log)["digest"]


def test_log_export_is_one_event_a_line(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "events.jsonl"

    on_stdout = command("log", "export", log).stdout
    command("log", "export", log, "-o", target)

    lines = [json.loads(line) for line in on_stdout.splitlines()]
    assert [line["seq"] for line in lines] == [*range(1, len(events_of(log)) + 1)]
    assert target.read_text() == on_stdout
    assert len(command("log", "export", log, "--to", "5").stdout.splitlines()) == 5


def test_log_export_can_be_a_trace_again(log: Path) -> None:
    rows = command("log", "export", log, "--as-trace").stdout.splitlines()

    jobs = [event for event in events_of(log) if isinstance(event, JobSubmitted)]
    assert rows[0].startswith("job_id,submit_s,duration_s,gpus")
    assert len(rows) == len(jobs) + 1


def test_log_export_to_a_place_that_is_none(log: Path, tmp_path: Path) -> None:
    done = command("log", "export", log, "-o", tmp_path / "no" / "file")

    assert done.exit_code == 2
    assert "cannot write" in done.stderr
    assert "name a file in a folder that exists" in done.stderr


def test_log_schema_is_the_published_one() -> None:
    found = json.loads(command("log", "schema").stdout)
    assert "RoundPlanned" in found["$defs"]


def waiting_at(path: Path) -> Iterator[tuple[str, int]]:
    """Yield preempted jobs with the number of the event that preempted them."""
    for seq, event in enumerate(events_of(path), 1):
        if isinstance(event, AllocationChanged) and not event.allocation.shares:
            yield event.job_id, seq


def test_why_names_the_decision_that_preempted_a_job(log: Path) -> None:
    job, seq = next(waiting_at(log))
    released = next(
        later
        for later, event in enumerate(events_of(log)[seq:], seq + 1)
        if isinstance(event, GpusReleased) and event.job_id == job
    )

    found = said("why", job, "--log", log, "--at", f"e{released}")

    assert found["phase"] == "waiting"
    assert found["reason"]["name"] == "outranked"
    assert found["decision"]["seq"] == seq
    assert found["decision"]["beneficiaries"]


def test_why_takes_an_instant(log: Path) -> None:
    job, seq = next(waiting_at(log))
    at_us = events_of(log)[seq - 1].at_us

    by_seconds = said("why", job, "--log", log, "--at", f"{at_us / 1e6}s")

    assert by_seconds["at"]["us"] == at_us
    assert by_seconds["phase"] == "suspending"


def test_why_tells_people_the_whole_life(log: Path) -> None:
    job, _ = next(waiting_at(log))

    done = command("why", job, "--log", log)

    assert done.exit_code == 0
    assert f"{job} finished at T+" in done.stdout
    assert "reasons over time" in done.stdout
    assert "preempted: outranked" in done.stdout


def test_why_says_that_it_looked_at_the_end_of_a_decision(log: Path) -> None:
    job, left = next(waiting_at(log))
    events = events_of(log)
    planned = max(
        seq for seq, event in enumerate(events[:left], 1) if isinstance(event, RoundPlanned)
    )
    end = left
    while isinstance(events[end], AllocationChanged):
        end += 1

    done = command("why", job, "--log", log, "--at", f"e{planned}")

    words = f"e{planned} lies within a decision: this is as of its end, e{end}"
    assert words in done.stdout
    assert "suspending" in done.stdout.splitlines()[0]


def test_why_with_history_hides_no_part_of_a_life(log: Path) -> None:
    job, _ = next(waiting_at(log))
    found = said("why", job, "--log", log)

    done = command("why", job, "--log", log, "--history")

    rows = done.stdout.splitlines()[3:]
    parts = [
        reason["reason"] if part["what"] == "wait" else f"attempt {part['attempt']} on"
        for part in found["timeline"]
        for reason in part.get("reasons", [part])
    ]
    assert len(rows) == len(parts)
    assert all(part in row for part, row in zip(parts, rows, strict=True))
    assert f"e{found['timeline'][-1]['ended_seq']}" in rows[-1]
