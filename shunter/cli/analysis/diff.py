"""`shunter diff`: where the decisions of two logs part and why, and what came of it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.options import Json, reading
from shunter.counting import counted, jobs_waiting

if TYPE_CHECKING:
    from shunter.ask.diff import LogDiff

DIFFERENT = 6
SHOWN = 3
"""How many decisions of each side are printed where more than one differs."""

LogA = Annotated[str, typer.Argument(metavar="LOG_A", help="A log: its path or address.")]
LogB = Annotated[str, typer.Argument(metavar="LOG_B", help="Another log.")]

_PLACES = {
    "same": "at the same instant on the same GPUs",
    "other_gpus": "at the same instant on others",
    "other_instant": "at another instant",
    "one_only": "in one log only",
    "never": "in neither",
}


def diff(
    log_a: LogA,
    log_b: LogB,
    most: Annotated[
        int, typer.Option("--jobs", min=0, help="How many jobs that gained or lost are listed.")
    ] = 5,
    as_json: Json = False,
) -> None:
    """Compare two runs: where they first decide otherwise, and why.

    Then how jobs fared, and the measures of both. Exits with 6 if they differ.
    """
    import asyncio

    from shunter.ask.diff import diff_logs
    from shunter.run.setup import rebuild

    async def compared() -> "LogDiff":
        async with reading(log_a) as a, reading(log_b) as b:
            return await diff_logs(a, b, rebuild, output.progress)

    found = asyncio.run(compared())
    document = found.document(most)
    if as_json:
        output.print_json(document)
    else:
        _print(document)
    if found.differs:
        raise typer.Exit(DIFFERENT)


def _print(document: dict[str, Any]) -> None:
    from shunter.cli.units import number

    for name, log in document["logs"].items():
        seed = "" if log["seed"] is None else f", seed {log['seed']}"
        digest = f"{number(log['events'])} events, digest {log['digest'][:12]}"
        output.print_line(f"{name.upper()}  {log['url']}  {log['policy']}{seed}, {digest}")
    output.print_line()
    alike = document["alike"]
    if document["identical"]:
        output.print_line("the logs are the same, event by event")
    elif document["first_decision"] is None:
        same = f"all {number(alike['decisions'])} decisions do the same in both"
        output.print_line(same if document["differs"] else f"{same}, for the same reasons")
        _print_pair("first input that differs", document["first_input"])
        _print_pair("first decision with other reasons", document["first_reason"])
    else:
        _print_first(document["first_decision"], alike)
    output.print_line()
    _print_measures(document["measures"])
    output.print_line()
    _print_jobs(document)


def _print_pair(title: str, pair: dict[str, Any] | None) -> None:
    if pair is None:
        return
    output.print_line(f"{title}, at {pair['time']}")
    for side in ("a", "b"):
        output.print_line(f"  {side.upper()}  {_told(pair[side])}")


def _print_first(first: dict[str, Any], alike: dict[str, int]) -> None:
    from shunter.cli.units import number

    output.print_line(
        f"first decision that differs: decision {number(alike['decisions'] + 1)}, {first['time']}"
    )
    for side in ("a", "b"):
        facts = first[f"only_{side}"]
        told = first[side]
        shown = [told, *(fact for fact in facts if fact != told)][:SHOWN]
        for fact in shown:
            output.print_line(f"  {side.upper()}     {_told(fact)}")
        if len(facts) > SHOWN:
            output.print_line(f"  {side.upper()}     and {len(facts) - SHOWN} more at that instant")
    output.print_line(f"  why   {first['why']}")
    for key, values in first["config"].items():
        one, two = (values[side] or "not set" for side in ("a", "b"))
        output.print_line(f"        {key}: {one} in A, {two} in B")
    for side in ("a", "b"):
        _print_seen(side.upper(), first["seen"][side])


def _told(fact: dict[str, Any] | None) -> str:
    return "nothing of the kind" if fact is None else f"{fact['words']} (e{fact['seq']})"


def _print_seen(name: str, seen: dict[str, Any]) -> None:
    """Print what a policy saw, and how it ranks the jobs in question."""

    if "free" not in seen:
        output.print_line(f"  saw {name} nothing can be asked: {seen['problem']}")
        return
    free = ", ".join(counted(count, f"{kind} GPU") for kind, count in seen["free"].items())
    queue = f", first {', '.join(seen['queue'])}" if seen["queue"] else ""
    waiting = f"{jobs_waiting(seen['waiting'])}{queue}; {seen['placed']} have GPUs"
    output.print_line(f"  saw {name} {free or 'no GPUs'} free; {waiting}")
    for rank in seen["ranks"]:
        place = rank["position"]
        where = "has GPUs" if place is None else f"waits as {place} of {seen['waiting']}"
        score = rank["words"] or f"score {', '.join(map(str, rank['score']))}"
        output.print_line(f"        {rank['id']} {where}: {score}")
    if seen["promise"]:
        output.print_line(f"        {seen['promise']}")


def _print_measures(measures: list[dict[str, Any]]) -> None:
    from shunter.cli.units import duration, number, percent

    def shown(name: str, value: float | None) -> str:
        if name.startswith("finish_time_fairness"):
            return "–" if value is None else f"{value:.2f}"
        if name == "gpu_utilisation":
            return percent(value)
        if name in ("preemptions", "migrations"):
            return "–" if value is None else number(round(value))
        return f"-{duration(-value)}" if value is not None and value < 0 else duration(value)

    columns = [output.Column(title, is_number=True) for title in ("A", "B", "B - A")]
    rows = [
        [each["name"], *(shown(each["name"], each[key]) for key in ("a", "b", "difference"))]
        for each in measures
    ]
    output.print_table(["measure", *columns], rows)


def _print_jobs(document: dict[str, Any]) -> None:
    from shunter.cli.units import number

    jobs = document["jobs"]
    output.print_line(
        f"of {counted(jobs['compared'], 'job')} that finished in both, {number(jobs['better'])} "
        f"took less time in B, {number(jobs['worse'])} more, {number(jobs['same'])} the same"
    )
    starts = [
        f"{number(count)} {_PLACES[name]}"
        for name, count in document["first_starts"].items()
        if count
    ]
    if starts:
        output.print_line(f"first starts: {', '.join(starts)}")
    others = {
        "ended otherwise": jobs["ended_otherwise"],
        "in A only": jobs["only_a"],
        "in B only": jobs["only_b"],
        "of the same id and different": jobs["other_jobs"],
    }
    told = [f"{number(count)} {name}" for name, count in others.items() if count]
    if told:
        output.print_line(f"other jobs: {', '.join(told)}")
    _print_changed("lost most in B", jobs["lost_most"])
    _print_changed("gained most in B", jobs["gained_most"])


def _print_changed(title: str, jobs: list[dict[str, Any]]) -> None:
    from shunter.cli.units import duration, number

    if not jobs:
        return
    output.print_line()
    columns = [title, "user"]
    numbers = ["GPUs", "JCT in A", "JCT in B", "B - A", "wait in A", "wait in B", "preempted"]
    rows = [
        [
            f"{job['id']} {job['name']}".rstrip(),
            job["user"],
            number(job["gpus"]),
            duration(job["a"]["jct_s"]),
            duration(job["b"]["jct_s"]),
            f"{'-' if job['delta_s'] < 0 else '+'}{duration(abs(job['delta_s']))}",
            duration(job["a"]["wait_s"]),
            duration(job["b"]["wait_s"]),
            f"{number(job['a']['preemptions'])} -> {number(job['b']['preemptions'])}",
        ]
        for job in jobs
    ]
    output.print_table([*columns, *(output.Column(name, is_number=True) for name in numbers)], rows)
