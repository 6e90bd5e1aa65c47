"""The frozen runs, and how a question about their logs is asked; README.md says what is kept.

A question is a line such as `why las-tuned j9 --at e120`, `queue fifo e88`, `history drf` or
`diff fifo drf`.
"""

import asyncio
import json
import lzma
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from shunter.api import queue_document
from shunter.ask import Verifier, clock, read_histories
from shunter.ask.why import document
from shunter.cli import app
from shunter.core.ranking import Ranking
from shunter.events import Event, JobSubmitted, Reason
from shunter.events.log import import_jsonl, open_log, read_log
from shunter.run import rebuild
from tests.replay.eventful_run import eventful
from tests.replay.golden_runs import SOLVED, SOLVED_FOLDER
from tests.replay.recording import Recorded, asked, reading
from tests.replay.truth.mixed_runs import RUNS, policy_of, simulated
from tests.replay.truth.scenes import SCENES, Scene

ANSWERS = Path(__file__).with_name("answers.jsonl.xz")
DIGESTS = Path(__file__).with_name("digests.txt")
HEAD = """\
The runs of this room, by the number of events and the digests of the log and of the last state
(README.md; the golden runs have theirs in tests/replay/runs/digests.json).
"""
DIGESTED = tuple(run for run in RUNS if policy_of(run) not in {*SOLVED, "gavel"})
SCENES_BY_RUN = {f"scene:{name.replace(' ', '_')}": scene for name, scene in SCENES.items()}
SCENES_BY_RUN["scene:eventful"] = Scene(eventful, "saver")
LEFT_OUT = ("sources", "digest")
EXIT_CODES = (0, 2, 6)
"""It answers, refuses to, or says that two logs differ."""


class Logs:
    """The logs of the frozen runs in a folder, each made when it is first asked about.

    `made` returns the address of a log that somebody has simulated already, which is copied.
    """

    def __init__(self, folder: Path, made: Callable[[str], str] | None = None) -> None:
        self.folder = folder
        self.made = made

    def of(self, run: str) -> str:
        """Return the address of the log of a run."""
        path, kept = self.folder / f"{run}.db", SOLVED_FOLDER / f"{run}.jsonl"
        if not path.exists() and run in SOLVED:
            asyncio.run(_import(kept.read_bytes().splitlines(keepends=True), str(path)))
        elif not path.exists() and self.made is not None:
            shutil.copy(self.made(run), path)
        elif not path.exists():
            simulated(run, self.folder)
        return str(path)

    def recorded(self, run: str) -> Recorded:
        """Return the events of a run, and what rebuilds its policy."""
        url = self.of(run)

        async def read() -> Recorded:
            async with read_log(url) as reader:
                return Recorded([event async for event in reader.events()], rebuild)

        return asyncio.run(read())

    def answer(self, question: str) -> Any:
        """Return what is kept of the answer to a question."""
        kind, run, *words = question.split(" ")
        scene = SCENES_BY_RUN.get(run)
        if kind == "diff":
            found = printed("diff", self.of(run), self.of(words[0]))
        elif kind == "why" and scene is not None:
            found = document(asyncio.run(asked(scene.run(), scene.job, scene.at_us)))
        elif kind == "why":
            found = printed("why", words[0], "--log", self.of(run), *words[1:])
        else:
            recorded = self.recorded(run) if scene is None else scene.run()
            found = (
                _queue(recorded, words[0])
                if kind == "queue"
                else asyncio.run(_history(recorded.events))
            )
        return _stable(found, f"{self.folder}/")


def printed(*words: str) -> Any:
    """Return the document that a command prints with --json, or why it refuses to."""
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code in EXIT_CODES, f"{words}: exit {done.exit_code}\n{done.output}"
    return json.loads(done.stdout) if done.stdout else {"refused": done.stderr}


async def _import(lines: Sequence[bytes], url: str) -> None:
    async with open_log(url) as log:
        await import_jsonl(lines, log)


def _queue(recorded: Recorded, place: str) -> Any:
    """Return what `GET /jobs` would have answered after an event, in the order of the policy."""
    verifier = Verifier(recorded.rebuild)
    assert verifier.take(recorded.events[: int(place.removeprefix("e"))]) is None
    state, memory, ranks = verifier.state, verifier.memory, {}
    if isinstance(memory, Ranking):
        keys = sorted(key for waiting in memory.classes for key in waiting.in_order)
        ranks = {memory.entry_at(key).job_id: rank for rank, key in enumerate(keys, 1)}
    now = clock(state.now_us)
    return queue_document(state, state.jobs.values(), clock, now=now, ranks=ranks)


async def _history(events: Sequence[Event]) -> Any:
    """Return each job's row of `shunter history`, with the attempts that `shunter show` prints."""
    found = []
    async with reading(events) as reader:
        ids = [event.job_id for event in events if isinstance(event, JobSubmitted)]
        histories = await read_histories(reader, ids)
    for job_id, history in histories.items():
        row = {"id": job_id} if history.outcome is None else history.row(clock)
        found.append({"row": row, "attempts": [one.document(clock) for one in history.attempts]})
    return found


def _stable(value: Any, folder: str) -> Any:
    """Return a document without what differs between machines and between versions of sources."""
    if isinstance(value, dict):
        return {key: _stable(each, folder) for key, each in value.items() if key not in LEFT_OUT}
    if isinstance(value, list | tuple):
        return [_stable(each, folder) for each in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")  # how sums round differs between versions of Python
    return value.replace(folder, "") if isinstance(value, str) else value


def canonical(question: str, answer: Any) -> str:
    """Return a question with its answer as it is kept, on one line."""
    return json.dumps([question, answer], ensure_ascii=False, sort_keys=True)


def kept_answers() -> dict[str, str]:
    """Return the kept lines by question."""
    lines = lzma.decompress(ANSWERS.read_bytes()).decode().splitlines()
    return {json.loads(line)[0]: line for line in lines}


def digest_table(logs: Logs, answers: Mapping[str, str]) -> str:
    """Return the text of digests.txt: the runs, and what the kept questions cover."""
    kinds = Counter(question.partition(" ")[0] for question in answers)
    waits = Counter(reason for line in answers.values() for reason in dict.fromkeys(_reasons(line)))
    rows = [HEAD]
    for run in DIGESTED:
        found = printed("replay", logs.of(run))
        digests = f"{found['log']['digest']:.16} {found['state_digest']:.16}"
        rows.append(f"{run} {found['log']['events']} {digests}")
    rows.append(f"\n{len(answers)} questions: {', '.join(f'{n} {k}' for k, n in kinds.items())}")
    rows.append("\nIn how many answers a job waits for what, or is rejected for it:")
    return "\n".join([*rows, *(f"{reason} {waits[reason]}" for reason in Reason), ""])


def _reasons(line: str) -> Iterator[str]:
    """Yield why jobs wait, or were rejected, at the moment of an answer of `why` or the queue."""
    question, answer = json.loads(line)
    kind = question.partition(" ")[0]
    if kind == "why" and answer.get("phase") == "rejected":
        yield answer["headline"].partition(" as ")[2].partition(":")[0]
    rows = answer["jobs"] if kind == "queue" else [answer] if kind == "why" else []
    yield from (row["reason"]["name"] for row in rows if row.get("reason"))
