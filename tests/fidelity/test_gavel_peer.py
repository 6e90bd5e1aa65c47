"""The peer setting of Gavel, by way of the examples, against every run without a solver.

The recorded results and traces are not part of Shunter; they are looked for in ../shared.
"""

from pathlib import Path
from typing import Any

import pytest

from shunter.config import load_config
from shunter.run import simulate
from tests.fidelity.test_gavel_literal import ALONE_CASES, INPUTS, NONE, RUNS, times_s, trace_of

pytestmark = pytest.mark.fidelity

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "peers" / "gavel"
TYPES = ("v100", "p100", "k80")


def run_example(policy: str, config: dict[str, Any], *more: str) -> Any:
    """Run the example of a policy on a recorded trace, table and cluster, log in memory."""
    overrides = [
        f"workload.trace={trace_of(config)}",
        f"workload.throughputs={INPUTS / config['throughputs']}",
        "log.url=memory:",
        *more,
    ]
    sizes = zip(config["cluster"].split(":"), config["gpus_per_server"].split(":"), strict=True)
    for number, (gpus, each) in enumerate(sizes):
        servers = int(gpus) // int(each)
        name = f"{TYPES[number]}-[01-{servers:02d}]"
        overrides.append(f"cluster.nodes.{number}.gpus={each}")
        if servers:
            overrides.append(f"cluster.nodes.{number}.name={name}")
        else:
            overrides.append(f"cluster.nodes.{number}.count=0")
    loaded = load_config(EXAMPLES / f"{policy}.toml", [("--set", o) for o in overrides], {})
    return simulate(loaded)


@pytest.mark.parametrize("name", ALONE_CASES or NONE)
def test_every_job_ends_when_the_public_simulator_says(name: str) -> None:
    config = RUNS[name]["config"]

    result = run_example(config["policy"], config)

    times = {int(story.job_id): story.jct_us / 1e6 for story in result.stories()}
    assert times == pytest.approx(times_s(name), rel=1e-6)
