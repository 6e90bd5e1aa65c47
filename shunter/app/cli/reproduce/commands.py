"""The papers whose comparisons can be run."""

import typer

from shunter.app.cli.option_tables import takes_options
from shunter.app.cli.reproduce.gandiva import gandiva
from shunter.app.cli.reproduce.gavel import gavel
from shunter.app.cli.reproduce.synergy import SynergyOptions, synergy
from shunter.app.cli.reproduce.tiresias import tiresias
from shunter.app.cli.reproduce.topology import topology

__all__ = ["papers"]

papers = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Run the comparison of a paper."
)
for paper in (tiresias, gavel, takes_options(SynergyOptions, synergy), gandiva, topology):
    papers.command()(paper)
