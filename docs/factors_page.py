"""Writes the built-in factors into their reference: `python -m docs.factors_page`.

So it does with what `benchmarks/gpu/run` has measured on a real GPU, if its document is there. A
test compares the page with what this would write, so it cannot fall behind.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from shunter.core.speeds import ModelFactors
from shunter.events import Level
from shunter.workloads import BUILTIN_FACTORS, load_factors

K = TypeVar("K")
MARK = "<!-- from here on written by docs/factors_page.py -->"
HEAD = ("| model | place | left | | source |", "|---|---|---|---|---|")
PAGE = Path(__file__).with_name("reference") / "factors.md"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "gpu" / "results.json"
NONE_YET = """\
Nothing yet: all figures of this page are papers', and so are pairs in `builtin:gavel`. On a machine
with a GPU and PyTorch, in under ten minutes,

```bash
benchmarks/gpu/run --out benchmarks/gpu/results.json
python -m docs.factors_page
```

measures what suspending and resuming cost by GB, what two jobs on one GPU leave of each other with
and without MPS, what a turn by SIGSTOP costs, how long a job takes to its next boundary, and CUDA's
own checkpoints of a process, and writes it here."""


def page(results: Path = RESULTS) -> str:
    """Return the page.

    Args:
        results: the document of `benchmarks/gpu/run`; it need not be there.
    """
    file = load_factors(BUILTIN_FACTORS, lambda _: "")
    models: dict[int, tuple[str, ModelFactors]] = {}  # each once, by the first of its names
    for model, factors in file.table.models.items():
        models.setdefault(id(factors), (model, factors))
    rows = [
        f"| {model} | {place} | {left:.3g} | {mark} | {file.sources[model]} |"
        for model, factors in models.values()
        for place, left, mark in _places(factors)
    ]
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    measured = ["", "## Measured on a GPU", "", *_measured(results), ""]
    return "\n".join([before + MARK, "", *HEAD, *rows, *measured])


def _measured(results: Path) -> Iterator[str]:
    """Yield what was measured on a GPU, and which figures are still papers'.

    Raises:
        ValueError: the document is of a rehearsal.
    """
    if not results.exists():
        yield NONE_YET
        return
    found: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    if found["rehearsal"]:
        raise ValueError(f"{results} is of a rehearsal on a CPU: its figures say nothing")
    parts: dict[str, dict[str, Any]] = found["parts"]
    yield (
        f"By `benchmarks/gpu/run` on {found['date']}: {found['gpu']}, driver "
        f"{found.get('driver', 'unknown')}, PyTorch {found['torch']}, cuda-bindings "
        f"{found['cuda.bindings']}, Python {found['python']}. Still papers' are the factors above: "
        "`levels`, `shapes` and `beside` take several GPUs and servers."
    )
    yield from ("", "| part | what came of it |", "|---|---|")
    for name, part in parts.items():
        words = part.get("in words") or f"not measured: {part['not measured']}"
        yield f"| {name.replace('_', ' ')} | {words} |"
    yield from ("", "As `[simulation.costs]` and as a table of factors:", "", "```toml")
    yield from _costs(parts)
    yield from _pairs(parts, f"{found['gpu']}, {found['date']}")
    yield "```"


def _costs(parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    suspend, slicing = parts.get("suspend", {}), parts.get("slicing", {})
    yield "[simulation.costs]"
    if "saved_gb" in suspend:
        size_mb = suspend["saved_gb"] * 1e3
        yield f"resume = {suspend['resume_s'] - suspend['load_s']:.3g}  # without the checkpoint"
        seconds = max(suspend["suspend_s"], suspend["load_s"])
        yield f"checkpoint_mb = {size_mb:.0f}  # {suspend['parameters']:,} parameters, with AdamW"
        yield f"bandwidth_mb_s = {size_mb / seconds:.0f}  # the slower one of saving and loading"
    else:
        yield "# suspend, resume: not measured"
    if "stop_s" in slicing:
        yield f"turn = {slicing['stop_s'] + slicing['continue_s']:.3g}"
    else:
        yield "# turn: not measured"


def _pairs(parts: Mapping[str, Mapping[str, Any]], source: str) -> Iterator[str]:
    """Yield a table of factors; a pair is said once, at the first of its models."""
    found = parts.get("pairs", {})
    if "without MPS" not in found:
        yield "# pairs: not measured"
        return
    of_model: dict[str, list[str]] = {model: [] for model in found["alone_batches_per_s"]}
    for pair, (one_left, other_left) in found["without MPS"].items():
        one, other = pair.split()
        left = [min(1.0, one_left), min(1.0, other_left)]
        if one == other:  # chance alone tells them apart
            left = [round(sum(left) / 2, 3)] * 2
        of_model[one].append(f"{other} = {left}")
    for model, pairs in of_model.items():
        yield from ("", f"[models.{model}]", f'source = "{source}"')
        if pairs:
            yield f"pairs = {{ {', '.join(pairs)} }}"


def _places(factors: ModelFactors) -> Iterator[tuple[str, float, str]]:
    """Yield where a table says anything of a model: place, what is left, how it is known."""
    if factors.levels:
        known_levels = (Level.switch, *factors.levels)
        left_in = {
            level: left
            for level, left in factors.in_server.items()
            if level is not Level.nvlink or level in factors.levels
        }
        yield from _marked("GPUs in one", left_in, known_levels)
    for gpus in sorted({over * each for over, each in factors.shapes}):
        left = {over: factors.spread(gpus, over) for over in range(2, gpus + 1)}
        known = [over for over, each in factors.shapes if over * each == gpus]
        yield from _marked(f"{gpus} GPUs, servers:", left, known)
    if factors.beside:
        known_beside = (*factors.beside, Level.rack)
        *beside, _ = _marked("neighbour in one", factors.neighbourhood, known_beside)
        yield from beside


def _marked(
    what: str, left: Mapping[K, float], known: Collection[K]
) -> Iterator[tuple[str, float, str]]:
    places = list(left)
    for number, place in enumerate(places):
        has_later = any(later in known for later in places[number:])
        mark = "" if place in known else "interpolated" if has_later else "at most"
        yield f"{what} {place}", left[place], mark


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
