"""Water filling: the levels that are found, and where the filling ends too early."""

from typing import Any

import numpy as np
import pytest

from shunter.policies.gavel import Demands
from shunter_peers.gavel.conic import Form, Kind
from tests.peers.gavel.conic.requests import A, B, C, demands

pytest.importorskip("_ecos", reason="needs the extra `ecos`")
ecos = pytest.importorskip("shunter_peers.gavel.conic.ecos")
filling = pytest.importorskip("shunter_peers.gavel.conic.filling")
rising = pytest.importorskip("shunter_peers.gavel.conic.rising")
shares = pytest.importorskip("shunter_peers.gavel.conic.shares")


def space(these: Demands) -> Any:
    return shares.space_of(Form(Kind.filling), these)


def test_nobody_can_rise_from_the_last_level_without_somebody_falling() -> None:
    """Where the least levels are equal, those above them are as high as they can be as well."""
    these = demands(A, B, C, A, B, room=(2, 1, 1))
    curve = filling.Filling.of(space(these))

    x = filling.filled(curve.space, ecos.solve)

    reached = curve.space.throughputs(x) * curve.share
    everybody = np.zeros(5, np.bool_)
    up = rising.can_rise(curve.space, curve.share, reached * (1 - 1e-6), everybody, ecos.solve)
    assert not up.any()


def test_job_that_is_held_below_a_tenth_ends_the_filling() -> None:
    curve = filling.Filling.of(space(demands(A, B)))
    held = np.array([True, False])

    up = rising.can_rise(curve.space, curve.share, np.array([0.09, 0.5]), held, ecos.solve)

    assert not up.any()


def test_job_that_is_held_above_a_tenth_does_not() -> None:
    curve = filling.Filling.of(space(demands(A, B)))
    held = np.array([True, False])

    up = rising.can_rise(curve.space, curve.share, np.array([0.11, 0.5]), held, ecos.solve)

    assert up.tolist() == [False, True]
