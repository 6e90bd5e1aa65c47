"""All that Gandiva tries, as one part of its comparison: packs, pairs and gangs."""

from dataclasses import dataclass
from typing import Any

from shunter.run import Report
from shunter_papers.gandiva.introspection import gathering, packing, pairs
from shunter_papers.gandiva.introspection.gathering import GangRow
from shunter_papers.gandiva.introspection.packing import PackingRow
from shunter_papers.gandiva.introspection.pairs import PairRow
from shunter_papers.gandiva.scenes import Form


@dataclass(frozen=True)
class Trials:
    """What was found of everything that is tried."""

    packing: tuple[PackingRow, ...]
    pairs: tuple[PairRow, ...]
    gangs: tuple[GangRow, ...]

    def document(self) -> dict[str, Any]:
        """Return it as a part of the document."""
        return {
            "packing": [row.document() for row in self.packing],
            "pairs": [row.document() for row in self.pairs],
            "gangs": [row.document() for row in self.gangs],
        }


def compare(form: Form, seed: int, *, workers: int, report: Report | None) -> Trials:
    """Run all of it.

    Args:
        form: the size of the cluster on which packs are tried.
        seed: by which models are drawn.
        workers: how many processes.
        report: told how many runs are done.
    """
    rows = packing.compare(form, seed, workers=workers, report=report)
    return Trials(tuple(rows), tuple(pairs.compare()), tuple(gathering.compare()))
