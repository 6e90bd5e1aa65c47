"""Draws the phases of a job into its page: `python -m docs.job_life_page`.

The drawing is made from `TRANSITIONS` in `shunter/core/state.py`; a test compares the two.
"""

from collections.abc import Iterator
from pathlib import Path

from shunter.core import TRANSITIONS, JobPhase

PAGE = Path(__file__).with_name("explanation") / "job-life.md"
BEGIN, END = "```text\n", "```\n"


def page() -> str:
    """Return the whole page, with the drawing as it would be made now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + "\n".join(drawing()) + "\n" + END + after


def drawing() -> Iterator[str]:
    """Yield the lines: a phase, then an arrow for each step that leads out of it."""
    for phase in (None, *JobPhase):
        yield phase or "(not submitted)"
        steps = [step for step in TRANSITIONS if step.before is phase]
        for step in steps:
            corner = "└" if step is steps[-1] else "├"
            names = ", ".join(kind.__name__ for kind in step.kinds)
            where = f"   where {step.when}" if step.when else ""
            yield f"   {corner}──▶ {step.after or '(ended)':<11} {names}{where}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
