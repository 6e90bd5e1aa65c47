"""The literal simulator of Gavel against every recorded run: GPUs in every round, and every end.

The recorded results and traces are not part of Shunter; they are looked for in ../shared.
"""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.gavel_inputs import Gang, read_table, read_trace, servers_of
from tests.peers.gavel_literal import Fractions, GavelRun, Policy
from tests.peers.gavel_policies_literal import literal_policy

pytestmark = pytest.mark.fidelity

SHARED = Path(__file__).resolve().parents[3] / "shared"
INPUTS = SHARED / "traces" / "gavel"
RESULTS = SHARED / "reference" / "gavel"
ABSENT = pytest.mark.skip(reason="needs the results of the peer as ../shared/reference/gavel")
ALONE = ("isolated", "fifo", "fifo_perf", "allox", "gandiva", "fifo_packed")


def recorded_runs() -> dict[str, Any]:
    path = RESULTS / "runs.json"
    if not path.is_file():
        return {}
    return {run["name"]: run for run in json.loads(path.read_text(encoding="utf-8"))["runs"]}


RUNS = recorded_runs()
REPLAYS = sorted((RESULTS / "replay").glob("*.rounds.json"))
REPLAY_CASES = [pytest.param(path, id=path.name.split(".")[0]) for path in REPLAYS]
ALONE_CASES = [pytest.param(name) for name, run in RUNS.items() if run["config"]["policy"] in ALONE]
NONE = [pytest.param(Path(), marks=ABSENT, id="none")]


def trace_of(config: dict[str, Any]) -> Path:
    return INPUTS / str(config["trace"]).replace("_single_seed0_lam1800", "")


def played(config: dict[str, Any], policy: Policy) -> GavelRun:
    """Play a recorded run with a policy."""
    name = config["policy"]
    any_order = "perf" in name or "packed" in name or name in ("gandiva", "allox")
    run = GavelRun(
        read_table(INPUTS / config["throughputs"]),
        servers_of(config["cluster"], config["gpus_per_server"]),
        policy,
        shuffles=not any_order,
        pairs_too=name == "gandiva" or name.endswith("packed"),
        is_fifo=name.startswith("fifo"),
    )
    return run.run(read_trace(trace_of(config)))


def gang_of(text: str) -> Gang:
    found = ast.literal_eval(text)
    return found if isinstance(found, tuple) else (found,)


def fed(allocations: list[Any]) -> Policy:
    """Return a policy that repeats what was recorded, and insists on when."""
    recorded: Iterator[Any] = iter(allocations)

    def repeat(run: GavelRun) -> Fractions:
        at_s, fractions = next(recorded)
        assert at_s == run.now_s
        return {gang_of(gang): row for gang, row in fractions.items()}

    return repeat


def times_s(name: str) -> dict[int, float | None]:
    return {int(job): one["jct"] for job, one in RUNS[name]["per_job"].items()}


@pytest.mark.parametrize("path", REPLAY_CASES or NONE)
def test_literal_simulator_repeats_every_round_of_a_recorded_run(path: Path) -> None:
    replay = json.loads(path.read_text(encoding="utf-8"))

    run = played(replay["config"], fed(replay["allocations"]))

    assert run.rounds == [
        (at_s, {gang_of(gang): tuple(workers) for gang, workers in there.items()})
        for at_s, there in replay["rounds"]
    ]
    assert run.jct_s == pytest.approx(times_s(path.name.split(".")[0]), rel=1e-6)


@pytest.mark.parametrize("name", ALONE_CASES or NONE)
def test_policies_without_a_solver_end_every_job_when_the_public_ones_do(name: str) -> None:
    config = RUNS[name]["config"]

    run = played(config, literal_policy(config["policy"]))

    assert run.jct_s == pytest.approx(times_s(name), rel=1e-6)
