"""Commands that look at whole runs: what two of them did otherwise, and a report of one or more."""

from shunter.cli.analysis import diff, report

__all__ = ["diff", "report"]
