"""Trials over random tables of pairs: what is lost to slicing is at most the probes."""

from itertools import combinations
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from shunter.core.performance.introspection import (
    MILLION,
    ChangeKey,
    Proposal,
    TrialRules,
    Verdict,
    next_proposal,
)
from shunter.events.values.ids import GpuType, JobId

QUANTUM_US: Final = 60_000_000
ALONE_US: Final = 600_000
TYPE: Final = GpuType("p100")
Pair = tuple[str, str]
Packed = tuple[int, int] | None
"""The time of a mini-batch of both partners, in us; None: they do not fit into memory."""

packed_times = st.none() | st.tuples(*[st.integers(ALONE_US, 10 * ALONE_US)] * 2)
pair_tables = st.integers(2, 5).flatmap(
    lambda count: st.fixed_dictionaries(
        dict.fromkeys(combinations([f"m{n}" for n in range(count)], 2), packed_times)
    )
)


def proposal_of(pair: Pair) -> Proposal:
    """Return that two jobs that have a GPU in turns are packed."""
    jobs = {JobId(model): ALONE_US for model in pair}
    return Proposal(ChangeKey("pack", pair, TYPE), jobs, MILLION)


def true_sum(packed: Packed) -> float:
    """Return the sum of the normalised rates of a pair, recomputed."""
    return 0.0 if packed is None else sum(ALONE_US / each for each in packed)


@given(pair_tables, st.integers(1, 3), st.integers(0, MILLION // 5))
def test_what_ends_is_never_below_slicing_by_more_than_the_probes(
    table: dict[Pair, Packed], quanta: int, epsilon: int
) -> None:
    """Each pair is tried once at most; all that loses is reverted; what is kept gains."""
    rules = TrialRules(quanta * QUANTUM_US, QUANTUM_US, epsilon)
    known: dict[ChangeKey, Verdict] = {}
    left, now_us, tried_us, work, kept = list(table), 0, 0, 0.0, None
    while kept is None and (found := next_proposal(map(proposal_of, left), known)) is not None:
        assert found.key not in known, "a known loser was tried again"
        pair = (found.key.models[0], found.key.models[1])
        packed, trial = table[pair], rules.begin(found, now_us)
        measured = dict(zip(map(JobId, pair), packed or (None, None), strict=True))
        early = trial.judged(measured, now_us)
        assert (early is None) == (packed is not None), "only a failure ends a probe early"
        verdict = early or trial.judged(measured, trial.ends_us)
        assert verdict is not None
        known[found.key] = verdict
        spent_us = 0 if early else rules.probe_us
        work, tried_us = work + true_sum(packed) * spent_us, tried_us + spent_us
        now_us += spent_us
        kept = packed if verdict.is_kept else None
    rate = true_sum(kept) if kept else 1.0
    assert rate >= 1.0
    rest_us = 10 * QUANTUM_US
    assert work + rate * rest_us >= (now_us + rest_us) - tried_us
    if kept is None:
        assert all(true_sum(each) <= 1 + epsilon / MILLION + 2e-6 for each in table.values())
