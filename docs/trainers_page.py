"""Writes what `make trainers` found into its page: `python -m docs.trainers_page`.

A test compares the page with what this would write, so it cannot fall behind.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.trainers.catalogue import RESULTS, Trainer, trainers

MARK = "<!-- from here on written by docs/trainers_page.py -->"
PAGE = Path(__file__).with_name("reference") / "trainers.md"
HEAD = ("| library | version | leaves | resumes | what Shunter does | what is not exact |",)
GOOD = ("exact", "ended", "refused")
RULE = "|---|---|---|---|---|---|"


def page() -> str:
    """Return the page."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    known = trainers()
    rows = [_row(each, results.get(each.name)) for each in known]
    parts = [*HEAD, RULE, *rows, "", *_points(known, results)]
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return "\n".join([before + MARK, "", *parts])


def _row(trainer: Trainer, result: Mapping[str, Any] | None) -> str:
    if result is None:
        version, resumes = trainer.packages[0].partition("==")[2], "not tried yet"
    else:
        version = next(version for name, version in result["versions"].items() if name != "python")
        resumes = _resumes(result)
    cells = (trainer.library, version, trainer.leaves, resumes, trainer.does, trainer.limits)
    return "| " + " | ".join(cells) + " |"


def _resumes(result: Mapping[str, Any]) -> str:
    points = result["points"]
    good = sum(each["outcome"] in GOOD for each in points)
    if good == len(points):
        return f"exactly, {good} of {good}"
    return f"**not exactly**, {good} of {len(points)}"


def _points(known: list[Trainer], results: Mapping[str, Any]) -> Iterator[str]:
    """Yield where each was suspended, and with which versions."""
    for trainer in known:
        result = results.get(trainer.name)
        if result is None:
            continue
        versions = ", ".join(f"{name} {each}" for name, each in result["versions"].items())
        yield f"## {trainer.library}: {trainer.name}\n"
        yield (
            f"`examples/trainers/{' '.join([trainer.script, *trainer.words])}`, "
            f"{result['batches']} mini-batches, {result['date']}; {versions}.{_served(result)}\n"
        )
        yield "| boundary | asked after | left after | resumed | |\n|---|---|---|---|---|"
        for each in result["points"]:
            asked, left = (", ".join(map(str, each[name])) for name in ("asked", "left"))
            because = "; ".join(line for line in each["because"] if not line.startswith("|"))
            yield f"| {each['kind']} | {asked} | {left} | {each['outcome']} | {because} |"
        yield ""


def _served(result: Mapping[str, Any]) -> str:
    """Say what came of it under a daemon, where that was tried."""
    served = result.get("served")
    if served is None:
        return ""
    bits = f"differed: {served['difference']}" if served["difference"] else "had equal bits"
    return (
        f" As a job of a daemon with `las`, preempted, suspended, the daemon killed meanwhile, it "
        f"{bits} ({served['date']})."
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
