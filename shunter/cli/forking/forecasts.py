"""When jobs start and end, as people read it: how long from now, P50 and P90, and how that held."""

from typing import TYPE_CHECKING

from shunter.cli import output
from shunter.cli.live.tables import print_rows
from shunter.counting import counted

if TYPE_CHECKING:
    from shunter.client.requests import Answer

COLUMNS: tuple[output.Column | str, ...] = (
    *("JOB", "NAME", "USER", output.Column("GPUS", is_number=True), "STATE"),
    *(output.Column(name, is_number=True) for name in ("START P50", "P90", "END P50", "P90")),
)
FEW = 30
"""With fewer past jobs their share says little, and that is said."""


def of_log(address: str) -> "Answer":
    """Return when the jobs of a log start and end that have not ended in it.

    Raises:
        ShunterError: the log cannot be read, or nothing be foreseen from it.
    """
    import asyncio

    from shunter.ask.forks.forecast_process import Question
    from shunter.ask.forks.forecasts import answer

    return asyncio.run(answer(Question(address))).document


def print_forecast(found: "Answer", *, as_json: bool) -> None:
    """Print a forecast."""
    if as_json:
        output.print_json(found)
        return
    now_us = found["now_us"]
    rows = [
        [
            *(job["id"], job["name"], job["user"], str(job["gpus"]), job["state"]),
            *_cells(job["start"], now_us),
            *_cells(job["end"], now_us),
        ]
        for job in found["jobs"]
    ]
    print_rows(COLUMNS, rows)
    for line in trust(found):
        output.print_line(line)


def in_words(found: "Answer") -> list[str]:
    """Return when the only job of a forecast starts and ends, in a line each."""
    (job,), now_us = found["jobs"], found["now_us"]
    lines = []
    for what in ("start", "end"):
        p50, p90 = _cells(job[what], now_us)
        is_told = job[what]["p90_us"] is not None
        lines.append(
            f"  {what}s in {p50} (P50), {p90} (P90)"
            if is_told
            else f"  when it {what}s cannot be predicted"
        )
    return lines


def trust(found: "Answer") -> list[str]:
    """Return how past forecasts held, and what this one takes for granted."""
    from shunter.cli.units import number, percent

    accuracy = found["accuracy"]
    lines = [
        f"simulated {counted(found['samples'], 'time')} from e{found['seq']} on, {found['now']}"
    ]
    for what, came, counts in (
        ("starts", "past jobs that waited started", accuracy),
        ("ends", "past jobs ended", accuracy["ends"]),
    ):
        if counts.get("ended") == 0:  # a daemon of before does not say it
            lines.append(f"accuracy of {what}: not known yet, as no job has ended")
            continue
        if not (jobs := counts["jobs"]):
            lines.append(f"accuracy of {what}: not known yet, as no past forecast has come due")
            continue
        few = ", which are few" if jobs < FEW else ""
        lines.append(
            f"accuracy of {what}: {percent(counts['share_by_p90'])} of {number(jobs)} {came} "
            f"within their P90, {percent(counts['by_p50'] / jobs)} within their P50{few}"
        )
    if accuracy["moments"]:
        lines.append(
            f"accuracy: predicted again at {counted(accuracy['moments'], 'past moment')}, from "
            "what was known then"
        )
    return [*lines, *(f"assumed: {each}" for each in found["assumptions"])]


def _cells(band: "Answer | None", now_us: int) -> list[str]:
    """Return P50 and P90 as time from now; `-`: it has begun, `?`: not foreseen."""
    from shunter.cli.units import duration

    if band is None:
        return ["-", "-"]
    found = (band["p50_us"], band["p90_us"])
    return ["?" if us is None else duration(max(0, us - now_us) / 1e6) for us in found]
