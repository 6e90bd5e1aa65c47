"""All of the topology comparison, part by part; each part is an experiment of its own."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from shunter.run import SCHEMA, Report
from shunter_papers.topology import approvals, staleness
from shunter_papers.topology.approvals import ApprovalRates
from shunter_papers.topology.figures import Figure, figures
from shunter_papers.topology.placements import compare_placements
from shunter_papers.topology.rows import Row
from shunter_papers.topology.scenes import EXPERIMENTS, GPUS
from shunter_papers.topology.staleness import StalenessRow
from shunter_papers.topology.verdicts import LEGEND, verdicts

PARTS: Final = (*EXPERIMENTS, "staleness", "approvals")
PLACED_JOBS, PROPOSED_JOBS = 250, 1_000
SEEDS: Final = {"quick": 3, "full": 20}
SERVERS: Final = 10_000
APPROVALS: Final = 5_000
AIM_PER_S: Final = 20_000
"""So many gangs a second are to be approved on 10,000 servers (the spec's E6)."""

NOTES: Final = (
    "the text gives no numbers for job schedulers that propose: none is held against these",
    "collisions are simulated; approvals are measured on this machine, in CPU seconds of one core",
)


@dataclass(frozen=True)
class Asked:
    """What is to be compared.

    `jobs` are those of each run; None: as many as the part needs. Placements are drawn by several
    seeds from one on, all else by that one. `nvlink` are the GPUs that are joined in each
    of the servers on which placements are compared.
    """

    seed: int = 0
    jobs: int | None = None
    full: bool = False
    parts: Sequence[str] = PARTS
    servers: int = SERVERS
    approvals: int = APPROVALS
    nvlink: Sequence[Sequence[int]] = ()

    @property
    def seeds(self) -> range:
        """The seeds of the runs in which placements are compared."""
        return range(self.seed, self.seed + SEEDS["full" if self.full else "quick"])

    @property
    def experiments(self) -> tuple[str, ...]:
        """Those in which placements are compared."""
        return tuple(part for part in EXPERIMENTS if part in self.parts)


@dataclass(frozen=True)
class Reproduction:
    """What was found; parts that were not asked for are empty."""

    asked: Asked
    figures: Sequence[Figure] = ()
    rows: Sequence[Row] = ()
    staleness: Sequence[StalenessRow] = ()
    approvals: ApprovalRates | None = None

    @property
    def notes(self) -> list[str]:
        """What holds for all numbers of a kind."""
        proposes = self.staleness or self.approvals is not None
        return [*(LEGEND if self.rows else ()), *(NOTES if proposes else ())]

    @property
    def sentences(self) -> list[str]:
        """What is to be seen in the tables."""
        said = [
            *verdicts(self.rows),
            *(staleness.verdicts(self.staleness) if self.staleness else ()),
        ]
        if self.approvals is not None:
            rates = self.approvals
            said.append(
                f"{rates.approvals_per_s:,.0f} gangs are approved in a CPU second on "
                f"{rates.servers:,} servers of 8 GPUs, {rates.conflict_rate:.1%} of the proposals "
                f"rejected; the aim is {AIM_PER_S:,} on the quick machine of the budgets"
            )
        return said

    @property
    def document(self) -> dict[str, Any]:
        """All of it as one JSON document; only `approvals` differs between equal runs."""
        found: dict[str, Any] = {"schema": SCHEMA, "paper": "topology", "seed": self.asked.seed}
        if self.rows:
            found["evidence"] = "simulated"
            found["seeds"] = list(self.asked.seeds)
            found["jobs"] = self.asked.jobs or PLACED_JOBS
            found["gpus"] = GPUS
            found["nvlink"] = self.asked.nvlink
            found["figures"] = [figure.document() for figure in self.figures]
            found["rows"] = [asdict(row) for row in self.rows]
        if self.staleness:
            found["staleness"] = [row.document() for row in self.staleness]
        if self.approvals is not None:
            found["approvals"] = asdict(self.approvals)
        return {**found, "notes": self.notes, "sentences": self.sentences}


def reproduce(asked: Asked, *, workers: int = 1, report: Report | None = None) -> Reproduction:
    """Run the parts that are asked for.

    Args:
        asked: what to run.
        workers: how many processes.
        report: told how many runs are done.
    """
    shown: Sequence[Figure] = ()
    rows: Sequence[Row] = ()
    stale: Sequence[StalenessRow] = ()
    rates: ApprovalRates | None = None
    if asked.experiments:
        shown, jobs = figures(), asked.jobs or PLACED_JOBS
        rows = compare_placements(
            asked.experiments,
            jobs,
            asked.seeds,
            nvlink=asked.nvlink,
            workers=workers,
            report=report,
        )
    if "staleness" in asked.parts:
        jobs = asked.jobs or PROPOSED_JOBS
        stale = staleness.compare(jobs, asked.seed, workers=workers, report=report)
    if "approvals" in asked.parts:
        measured = approvals.measure("memory:", asked.servers, asked.approvals, asked.seed)
        rates = asyncio.run(measured)
    return Reproduction(asked, shown, rows, stale, rates)
