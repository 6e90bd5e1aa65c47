"""`shunter reproduce`: the comparison of a paper, run here, beside what the paper claims."""

from shunter_papers.commands.commands import papers

__all__ = ["papers"]
