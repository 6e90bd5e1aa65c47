"""Where the command begins: what is to be done before anything large is imported."""

from shunter.gc_control import collect_rarely


def main() -> None:
    """Run the command line and exit."""
    collect_rarely()
    from shunter.cli.application import run

    run()
