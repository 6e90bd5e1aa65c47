"""The peer setting's policies with a solver, end to end, against every recorded run.

With ECOS, as there, every job ends when it did there. With our own solver (`centred`) runs are held
to what the peer has against itself: with another solver the public code's own results move by up to
4.2 % (average completion time) and 1.3 % (makespan) on small traces, by about 0.5 % on large ones;
what is beyond is named with the first round that differs.

Where the optimum is a large face, the last bits of the linear algebra decide too, and those
differ from CPU to CPU: OpenBLAS takes other kernels on each. So it is told to take those that
every x86-64 of the last ten years has. With the kernels for AVX-512, two that miss here are within
the bounds (`artifact__finish_time_fairness`, `makespan__max_sum_throughput_perf`), and
`medium__finish_time_fairness` is not.
"""

from importlib.util import find_spec
from statistics import fmean
from typing import Any

import pytest

from shunter_peers.gavel.policy_table import POLICY_TABLE
from tests.fidelity.test_gavel_literal import NONE, RUNS, times_s
from tests.fidelity.test_gavel_peer import run_example

pytestmark = pytest.mark.fidelity

NEEDS_ECOS = pytest.mark.skipif(find_spec("_ecos") is None, reason="needs the extra `ecos`")
OFF_CENTRE = (
    "ECOS stops off the centre of a face that is large because all GPU types count the same"
)
RESIDUES = "who gets left-over GPUs hangs on residues of the solver below 1e-9"
MISSES_CENTRED = {
    "artifact__finish_time_fairness": f"{OFF_CENTRE}: makespan -9.2 %",
    "artifact__max_min_fairness": f"{OFF_CENTRE}: makespan -7.9 %, from round 0 at 0 s on",
    "artifact__max_sum_throughput_perf": f"{RESIDUES}: makespan -4.4 %, from round 0 at 0 s on",
    "gen120__min_total_duration_perf": "any point within 5 % of the least makespan will do there, "
    "and ECOS stops off the centre of these: average -7.1 %, from round 8 at 2880 s on",
    "makespan__finish_time_fairness": f"{OFF_CENTRE}: average -2.2 %, from round 0 at 0 s on",
    "makespan__max_sum_throughput_perf": f"{RESIDUES}: makespan +1.2 %",
    "makespan__max_min_fairness_water_filling": f"{OFF_CENTRE}: makespan -1.9 %, from round 0 at "
    "0 s on",
    "medium__max_min_fairness_water_filling": f"{OFF_CENTRE}: makespan -3.5 %, from round 0 at "
    "0 s on",
}


def cases(misses: dict[str, str]) -> list[Any]:
    found: list[Any] = []
    for name, run in RUNS.items():
        play = POLICY_TABLE.get(run["config"]["policy"])
        if play is not None and play.form is not None:
            missed = pytest.mark.xfail(strict=True, reason=misses.get(name, ""))
            found.append(pytest.param(name, marks=[missed] if name in misses else [], id=name))
    return found


@NEEDS_ECOS
@pytest.mark.parametrize("name", cases({}) or NONE)
def test_with_ecos_every_job_ends_when_the_public_simulator_says(name: str) -> None:
    config = RUNS[name]["config"]

    result = run_example(config["policy"], config)

    times = {
        int(story.job_id): None if story.jct_us is None else story.jct_us / 1e6
        for story in result.stories()
    }
    assert times == pytest.approx(times_s(name), rel=1e-6)


@pytest.mark.parametrize("name", cases(MISSES_CENTRED) or NONE)
def test_our_own_solver_is_as_close_to_the_peer_as_the_peer_to_itself(name: str) -> None:
    run = RUNS[name]
    is_large = name.startswith(("gen120", "makespan"))
    of_average, of_makespan = (0.02, 0.01) if is_large else (0.05, 0.02)

    result = run_example(
        run["config"]["policy"], run["config"], "policy.params.gavel_peer.solver=centred"
    )

    ends = [story.jct_us / 1e6 for story in result.stories() if story.jct_us is not None]
    assert len(ends) == run["completed_jobs"] - run["dropped_jobs"]
    assert fmean(ends) == pytest.approx(run["avg_jct_s"], rel=of_average)
    assert result.document["makespan_s"] == pytest.approx(run["makespan_s"], rel=of_makespan)
