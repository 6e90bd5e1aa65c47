"""`shunter config`: check a config file, show what is in effect, publish its schema."""

from typing import Annotated

import typer

from shunter.cli import output
from shunter.cli.options import ConfigFile, Json, Settings, load
from shunter.counting import counted

commands = typer.Typer(no_args_is_help=True, help="Check and show config files.")


@commands.command()
def validate(config: ConfigFile, settings: Settings = None) -> None:
    """Check a file, its overrides and its jobs, as a run would (wrong: exit 2)."""
    from shunter.config.resolved import policy_runtime
    from shunter.daemon.slurm import served_notes
    from shunter.run.setup import load_jobs, set_up
    from shunter.run.table_range import servers_out_of_range

    loaded = load(config, settings)
    told: list[str] = []
    warnings = served_notes(loaded)
    if loaded.config.workload.has_jobs:
        trace = load_jobs(loaded)
        told = [f"{trace.source}: {sentence}" for sentence in trace.report.sentences()]
        warnings += set_up(loaded, trace).notes
    else:
        policy_runtime(loaded, instant=False)  # refused as by a daemon
        warnings += servers_out_of_range(loaded)
    cluster = loaded.config.cluster
    servers = len(cluster.servers())
    gpus = counted(cluster.gpus, "GPU")
    units = f" and {cluster.units:,} units of CPU" if cluster.units else ""
    output.print_line(f"{config}: right; {gpus}{units} on {counted(servers, 'server')}")
    for sentence in told:
        output.note(sentence)
    for warning in warnings:
        output.note(f"warning: {warning}")


@commands.command()
def show(
    config: ConfigFile,
    settings: Settings = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Say where each value came from.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print every key with the value in effect, as --set takes it."""
    from shunter.config.effective import effective
    from shunter.config.effective import settings as settings_of

    loaded = load(config, settings)
    if as_json and not origin:
        output.print_json(effective(loaded))
        return
    rows = settings_of(loaded)
    if as_json:
        output.print_json(
            [{"key": row.key, "value": row.value, "origin": row.origin} for row in rows]
        )
    elif origin:
        output.print_pairs([(f"{row.key} = {row.text}", f"# {row.origin}") for row in rows])
    else:
        for row in rows:
            output.print_line(f"{row.key} = {row.text}")


@commands.command()
def schema() -> None:
    """Print the JSON schema of config files."""
    from shunter.config.effective import json_schema

    output.print_json(json_schema())
