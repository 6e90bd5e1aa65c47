"""The papers whose comparisons can be run."""

import typer

from shunter.cli import takes_options
from shunter_papers.commands.gandiva import gandiva
from shunter_papers.commands.gavel import gavel
from shunter_papers.commands.synergy import SynergyOptions, synergy
from shunter_papers.commands.tiresias import tiresias
from shunter_papers.commands.topology import topology

papers = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Run the comparison of a paper."
)
for paper in (tiresias, gavel, takes_options(SynergyOptions, synergy), gandiva, topology):
    papers.command()(paper)
