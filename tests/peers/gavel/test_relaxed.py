"""The makespan of the public code against the least."""

import numpy as np
import pytest

from shunter.policies.gavel import least_total_duration
from shunter_peers.gavel.objectives.relaxed import relaxed_total_duration
from tests.unit.policies.gavel.solving.instances import groups_of
from tests.unit.policies.gavel.solving.limits import assert_limits_kept


@pytest.mark.parametrize("seed", range(4))
def test_relaxed_makespan_is_at_most_five_per_cent_longer(seed: int) -> None:
    groups = groups_of(seed, 12, 3)
    steps = 10 ** np.random.default_rng(seed).uniform(4, 6, 12)

    shares = relaxed_total_duration(groups, steps)

    least = 1 / least_total_duration(groups, steps).objective
    assert least * (1 - 1e-6) <= (steps / shares.throughputs).max() <= 1.06 * max(least, 100.0)
    assert_limits_kept(groups, shares)
