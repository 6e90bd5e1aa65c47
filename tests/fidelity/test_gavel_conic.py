"""Fractions by ECOS against those the public code recorded, on the inputs it had, to 1e-8.

The recorded allocations are played, so that every input is the one the peer had. They leave out
fractions of 0. Residues below 1e-8 count too: whether they are the same is seen in who runs.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from shunter.core.speeds import ThroughputTable
from shunter.policies.gavel import Demands, FinishTimes, Fractions
from shunter_peers.gavel import PeerRounds
from shunter_peers.gavel.policy_table import POLICY_TABLE, PolicyEntry
from tests.fidelity.test_gavel_literal import NONE, REPLAYS
from tests.fidelity.test_gavel_mechanism import Played, fractions_of

pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.skipif(find_spec("_ecos") is None, reason="needs the extra `ecos`"),
]


def play_of(path: Path) -> PolicyEntry:
    return POLICY_TABLE[path.name.split(".")[0].split("__")[1]]


CASES = [
    pytest.param(path, id=path.name.split(".")[0])
    for path in REPLAYS
    if play_of(path).form is not None
]


@pytest.mark.parametrize("path", CASES or NONE)
def test_fractions_are_the_recorded_ones(path: Path) -> None:
    from shunter_peers.gavel.conic.answers import answer

    play = play_of(path)
    form = play.form
    assert form is not None
    objective = play.make(0, {})
    finishing = objective if isinstance(objective, FinishTimes) else None
    replay = json.loads(path.read_text(encoding="utf-8"))
    recorded = iter(replay["allocations"])
    compared: list[tuple[Fractions, Fractions]] = []

    def repeat(rounds: PeerRounds, table: ThroughputTable) -> Fractions:
        demands: Demands = rounds.demands(table)
        fractions = fractions_of(next(recorded)[1] or {})
        if finishing is not None:
            finishing.note(demands)
        compared.append((answer(form, demands, {}, finishing), fractions))
        return fractions

    Played(replay["config"], repeat).run()

    assert compared
    for ours, theirs in compared:
        assert ours.keys() == theirs.keys()
        for gang, row in ours.items():
            there = {name: theirs[gang].get(name, 0.0) for name in row}
            assert row == pytest.approx(there, abs=1e-8, rel=0)
