"""Writes the reference of reasons from their table: `python -m docs.reasons_page`.

A test compares the page with what this would write, so it cannot fall behind.
"""

from pathlib import Path
from textwrap import fill

from shunter.ask.reason_words import REASONS

PAGE = Path(__file__).with_name("reference") / "reasons.md"

INTRODUCTION = """\
# Reasons

Why a job waits, or why a change was refused, is one word of a closed list. New words need a new
version of Shunter, because old logs cannot be taught them; a policy may add a detail of its own.

A reason is recorded for a *class* of jobs that ask for the same, when it changes
(`RoundPlanned.waits`), because all of a class wait for the same thing. `shunter why` works out
which of them is a job's own at any moment, and says so where the reason is older than its wait. `queue`, the API's `/jobs`,
`/metrics` and `why` give one reason at any moment.

Given by the policies of this version:
"""

EVIDENCE = """\
## Evidence

| field | meaning |
|---|---|
| `needed` | GPUs it needs |
| `free` | how many GPUs of one type that it accepts, or of its queue's quota, are free: given to nobody, also while who had them is yet to leave |
| `behind` | how many more are held there by jobs that it may preempt |
| `missing` | how many must come free at least: `needed` less `free` and `behind` |
| `blockers` | the one it must not overtake, then jobs that it cannot make leave, the last in rank first |
| `detail` | what a policy adds |
| `beside` | of `cpu_or_memory_short`: what is `needed` (`gpus`, `cpus`, `memory_mb`), and what `servers` have for it; `counts_jobs_behind`: jobs that it may preempt count as gone; `counts_shares_above`: others count with their shares |

A log written with `reasons = "transitions"` holds the evidence of the moment at which the reason
changed. `why` says which round told the reason and when, if that was before the instant that is asked for, and what a plan
on the state of that instant would find (`as_of` of `reason` and of `evidence`). Its numbers are those of the instant asked for, from the state and the policy's ranking
there; of a policy that cannot be asked again, the recorded blockers that still hold GPUs.
"""


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION]
    for name, words in REASONS.items():
        meaning = fill(words.meaning, 120, break_long_words=False, break_on_hyphens=False)
        parts.append(f"## `{name}`\n`shunter queue --explain`: *{words.clause}*\n\n{meaning}\n")
    return "\n".join([*parts, EVIDENCE])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
