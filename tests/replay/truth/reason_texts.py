"""What `why` says for each reason, in full, kept as text: read it when it changes.

    python -m tests.replay.truth.reason_texts           print all texts as they are today
    python -m tests.replay.truth.reason_texts --write   keep them

Each text is of one job at one event: in a scene of its own, or in the log of a policy of each
family. Which event that is in a log is kept in the file, so only --write looks for it.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shunter.ask import fold_events
from shunter.ask.why import document, explain
from shunter.core import State
from shunter.events import JobId, Reason
from shunter.events.log import LogReader, read_log
from shunter.run import rebuild
from tests.replay.recording import reading
from tests.replay.truth.brute_force import decision_around
from tests.replay.truth.mixed_runs import simulated
from tests.replay.truth.scenes import SCENES, Scene

__all__ = ["FAMILIES", "KEPT", "reasons_of", "text_of_log", "text_of_scene"]

KEPT = Path(__file__).parent / "golden" / "reasons.txt"
FAMILIES = ("fifo", "fifo_backfill", "gandiva", "gavel", "las", "tiresias", "two_level")
"""A policy of each kind: strict, with backfill, in turns, by shares, preemptive by rank, by clocks,
and of two levels."""

BAR = "== "
STEP = 7
"""Of the events of a log each seventh is looked at for a reason that is new, of one job there."""


def text_of_scene(name: str, scene: Scene) -> str:
    """Return what is said in a scene."""
    recorded = scene.run()
    events = recorded.events
    at_us = events[-1].at_us if scene.at_us is None else scene.at_us
    seq = max(seq for seq, event in enumerate(events, 1) if event.at_us <= at_us)

    async def asked() -> dict[str, Any]:
        async with reading(events) as reader:
            return document(await explain(reader, JobId(scene.job), seq, at_us, recorded.rebuild))

    said = asyncio.run(asked())
    return _text(f"{name} · a scene", said)


async def text_of_log(reader: LogReader, title: str) -> str:
    """Return what is said of the job and the event of a log that a title names."""
    _, _, place = title.split(" · ")
    number, job_id = place.split()
    seq = int(number.removeprefix("e"))
    (event,) = [event async for event in reader.events(seq - 1, seq)]
    said = document(await explain(reader, JobId(job_id), seq, event.at_us, rebuild))
    return _text(title, said)


def reasons_of(text: str) -> Iterator[str]:
    """Yield the reasons of which there is a text."""
    for line in text.splitlines():
        if line.startswith(BAR):
            yield line.removeprefix(BAR).split(" · ")[0].split(",")[0]


def _text(title: str, said: Mapping[str, Any]) -> str:
    rows = [f"{BAR}{title}", said["headline"], *[f"  {line}" for line in said["details"]]]
    evidence, decision = said["evidence"], said["decision"]
    if evidence is not None:
        numbers = [f"{name} {evidence[name]}" for name in ("needed", "free", "behind", "missing")]
        rows.append(f"  evidence: {', '.join(numbers)}")
        rows += [f"  blocker: {each['id']}, {each['phase']}" for each in evidence["blockers"]]
    if decision is not None:
        rows.append(f"  decision: e{decision['seq']} of the {decision['of']}")
    rows += [f"  at least: {line}" for line in said["needs_at_least"]]
    rows += [f"  starts if: {line}" for line in said["would_start_if"]]
    if said["short"] is not None:
        rows += [f"  {name}: {said['short'][name]}" for name in ("waits_for", "to_do")]
    return "\n".join([*rows, ""])


async def _search(url: str, name: str) -> list[str]:
    """Return the first text of each reason in the log of a policy."""
    found: dict[str, str] = {}
    async with read_log(url) as reader:
        events = [event async for event in reader.events()]
        for seq in range(10, len(events), STEP):
            state = State()
            fold_events(state, events[: decision_around(events, seq)[1]])
            waiting = [job.job_id for job in state.jobs.values() if job.phase in _WAITS]
            if not waiting:
                continue
            job_id = waiting[seq % len(waiting)]
            said = document(await explain(reader, job_id, seq, events[seq - 1].at_us, rebuild))
            reason = said["reason"]["name"]
            if reason not in found:
                found[reason] = _text(f"{reason} · {name} · e{seq} {job_id}", said)
    return [found[reason] for reason in sorted(found)]


_WAITS = ("waiting", "granted")


def main() -> str:
    """Return all texts, made anew."""
    texts = [text_of_scene(name, scene) for name, scene in SCENES.items()]
    with TemporaryDirectory() as folder:
        for name in FAMILIES:
            texts += asyncio.run(_search(simulated(name, Path(folder)), name))
    missing = {str(reason) for reason in Reason} - set(reasons_of("\n".join(texts)))
    assert not missing, f"no scene and no log has {sorted(missing)}"
    return "\n".join(texts)


if __name__ == "__main__":
    made = main()
    if "--write" in sys.argv:
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(made, encoding="utf-8")
    sys.stdout.write(made)
