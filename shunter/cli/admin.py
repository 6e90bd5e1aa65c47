"""`shunter admin`: what only who runs a cluster needs, and seldom.

The same commands without `admin` (`shunter log reindex`, the others at the top) are of earlier
versions, and no help lists them.
"""

import typer

from shunter.cli.control import discard_checkpoint, set_aside
from shunter.cli.log import reindex
from shunter.cli.options import CommandGroup
from shunter.cli.profile import profile

admin_commands = typer.Typer(
    cls=CommandGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Profile jobs, free jobs that are stuck, and repair the index of a log.",
)
admin_commands.command("profile")(profile)
admin_commands.command("discard-checkpoint")(discard_checkpoint)
admin_commands.command("set-aside")(set_aside)
admin_commands.command("reindex")(reindex)
