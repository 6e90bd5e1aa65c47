"""`shunter simulate`, which runs one config on a virtual clock, and `shunter reproduce`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from shunter.cli import output
from shunter.cli.options import CommandGroup, ConfigFile, Json, Settings, load, name_values
from shunter.cli.units import duration, left_out, number, percent
from shunter.counting import counted
from shunter.errors import UsageError
from shunter.output_files import check_target

if TYPE_CHECKING:
    from shunter.config import LoadedConfig
    from shunter.run import RunDocument, RunResult, Times


def simulate(
    config: ConfigFile,
    policy: Annotated[str | None, typer.Option(help="Policy instead of the config's.")] = None,
    settings: Settings = None,
    as_json: Json = False,
    jobs_out: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Write one row for each job.")
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the log goes, instead of the config's.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a log that exists.")
    ] = False,
    plain_log: Annotated[
        bool,
        typer.Option(
            "--plain-log",
            help="Do not compress the log: sqlite3 reads it; a long one is five times as large.",
        ),
    ] = False,
) -> None:
    """Run a config on a simulated cluster and sum up what happened."""
    from shunter.run import write_jobs

    loaded = load(config, settings, _chosen(policy, log))
    check_target(jobs_out, loaded.config.log.url, loaded.layers.inputs())
    result = _run(loaded, overwrite, plain_log)
    for sentence in result.report.sentences():
        output.note(f"{result.trace.source}: {sentence}")
    for sentence in result.remarks:
        output.note(sentence)
    if jobs_out is not None:
        write_jobs(jobs_out, result.stories(), len(result.trace.jobs))
    if as_json:
        output.print_json(result.document)
    else:
        _print(result.document)


def _chosen(policy: str | None, log: str | None) -> list[tuple[str, str]]:
    """Return the options that are keys of the config."""
    chosen = []
    if policy is not None:
        chosen.append(("--policy", f"policy.name={policy}"))
    if log is not None:
        chosen.append(("--log", f"log.url={log}"))
    return chosen


def _run(loaded: "LoadedConfig", overwrite: bool, plain_log: bool) -> "RunResult":
    from shunter.run import simulate as run

    with output.progress(f"{loaded.config.policy.name}: jobs ended") as report:
        return run(loaded, overwrite=overwrite, report=report, plain_log=plain_log)


def _print(document: "RunDocument") -> None:
    star = "*" if document["oracle"] else ""
    cluster, trace, jobs = document["cluster"], document["trace"], document["jobs"]
    rounds, log = document["rounds"], document["log"]
    units = f" and {number(cluster['units'])} units of CPU" if "units" in cluster else ""
    gpus = counted(cluster["gpus"], "GPU")
    output.print_pairs(
        [
            ("policy", document["policy"] + star),
            ("cluster", f"{gpus}{units} on {counted(cluster['nodes'], 'server')}"),
            ("trace", f"{trace['source']}, {counted(trace['jobs'], 'job')}"),
            ("jobs", ", ".join(f"{number(n)} {name}" for name, n in jobs.items() if n)),
            ("makespan", duration(document["makespan_s"])),
            ("GPU utilisation", percent(document["gpu_utilisation"])),
            ("preemptions", number(document["preemptions"])),
            *_proposals(document),
            ("migrations", number(document["migrations"])),
            ("rounds", f"{number(rounds['planned'])} planned, {number(rounds['skipped'])} skipped"),
            ("events", number(document["events"])),
            ("log", f"{_address(log['url'])}  digest {log['digest'][:12]}"),
        ],
    )
    output.print_line()
    rows = [["all", *_times(jobs["finished"], document)]]
    for name, numbers in document["by_size"].items():
        rows.append([name, *_times(numbers["jobs"], numbers)])
    columns = ["mean JCT", "p50", "p95", "p99", "mean wait", "p99 wait"]
    output.print_table(
        ["GPUs", *(output.Column(title, is_number=True) for title in ["jobs", *columns])],
        rows,
    )
    if jobs["finished"] < jobs["submitted"]:
        output.print_line(f"times are of finished jobs; left out: {left_out(jobs)}")
    if star:
        output.print_line("* oracle: uses true durations, which no scheduler knows")


def _proposals(document: "RunDocument") -> list[tuple[str, str]]:
    """Return what became of proposals, where job schedulers made them."""
    told = document.get("proposals")
    if told is None:
        return []
    words = f"{number(told['proposed'])} made, {number(told['conflicts'])} collided"
    return [("proposals", f"{words} ({percent(told['conflict_rate'])})")]


def _address(url: str) -> str:
    """Return where a log is, in words where it was not kept."""
    return {"none:": "not kept", "memory:": "kept in memory only"}.get(url, url)


def _times(count: int, numbers: "Times") -> list[str]:
    jct, wait = numbers["jct_s"], numbers["wait_s"]
    times = [jct["mean"], jct["p50"], jct["p95"], jct["p99"], wait["mean"], wait["p99"]]
    return [number(count), *map(duration, times)]


# `shunter reproduce`, whose commands the distribution shunter-papers brings.


class _Brought(CommandGroup):
    """The commands of another distribution, imported when they are asked for."""

    def list_commands(
        self, ctx: Any
    ) -> list[str]:  # typer keeps the type of its contexts to itself
        return _plugged().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = _plugged().get_command(ctx, cmd_name)
        return None if found is None else name_values(found)


def _plugged() -> TyperGroup:
    """Return the group of commands that the entry point `reproduce` names.

    Raises:
        UsageError: nothing that is installed brings it.
        ConfigError: what brings it cannot be imported.
    """
    from shunter.plugins import Plugins

    plugins = Plugins("command", "shunter.commands")
    point = plugins.point("reproduce")
    if point is None:
        raise UsageError(plugins.missing("reproduce"))
    group = get_command(plugins.loaded(point))
    assert isinstance(group, TyperGroup)
    return group


reproduce_commands = typer.Typer(
    cls=_Brought,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run the comparison of a paper.",
)
