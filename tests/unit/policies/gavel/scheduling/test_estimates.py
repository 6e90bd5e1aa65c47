"""Guesses in use: what they are of, and that the log says how far off they are."""

import pytest

from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, TargetsSet
from shunter.policies.gavel import Gavel, guesses_in_words
from tests.factories import World, node_added, run, trace_job

K80, V100 = GpuType("k80"), GpuType("v100")
MINUTE_US = 60_000_000
KINDS = [JobKind(f"m{number}", 1) for number in range(4)]
TABLE = ThroughputTable(
    {
        V100: {kind: 8.0 * (number + 1) for number, kind in enumerate(KINDS)},
        K80: {kind: 1.0 * (number + 1) for number, kind in enumerate(KINDS[:3])},
    },
    base_type=V100,
)


def test_guessed_rates_of_a_table_are_used_and_told() -> None:
    params = Gavel.Params.model_validate({"estimate": True})
    policy = Gavel.build(params, PLACEMENTS["consolidated"]()).knowing(TABLE)
    world = World(
        servers=(node_added("v", 1, gpu_type="v100"), node_added("k", 1, gpu_type="k80")),
        jobs=(
            trace_job(0, lasts=MINUTE_US, model="m0"),
            trace_job(1, lasts=MINUTE_US, model="m3"),
        ),
        round_us=MINUTE_US,
    )

    first = run(world, policy).of(TargetsSet)[0]

    assert policy.table is not None
    assert policy.table.rate(K80, KINDS[3]) == pytest.approx(4.0, rel=0.15)
    assert first.solver.startswith("1 rates of the table guessed")
    assert first.status == "ok"


def test_nothing_is_guessed_unless_asked() -> None:
    policy = Gavel.build(Gavel.Params(), PLACEMENTS["consolidated"]()).knowing(TABLE)

    assert policy.table is TABLE


def test_words_have_a_count_and_an_error() -> None:
    assert guesses_in_words(3, "jobs' rates", 0.12) == (
        "3 jobs' rates guessed, half of them within 12% as far as can be told"
    )
    assert guesses_in_words(3, "jobs' rates", None) == "3 jobs' rates guessed"
    assert guesses_in_words(0, "jobs' rates", None) == ""
