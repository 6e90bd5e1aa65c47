"""`shunter reproduce`: the comparison of a paper, run here, beside what the paper claims."""

from shunter.app.cli.reproduce.commands import papers

__all__ = ["papers"]
