"""`shunter reproduce topology`: its jobs, its figures, and what it says of them."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.core import View
from shunter.core.speeds import unfit_contract
from shunter.events import AllocationChanged, Level
from shunter.run import simulate
from shunter_papers.topology.figures import figures
from shunter_papers.topology.placements import compare_placements
from shunter_papers.topology.rows import Row
from shunter_papers.topology.scenes import CONTENDERS, GPUS, Scene
from shunter_papers.topology.verdicts import verdicts

pytestmark = pytest.mark.fidelity

ROW = Row("tension", 0.5, "spread", 1.0, 1.0, 0.1, 0.0, 1.0, 0.0)
PAIRS = ((0, 4), (1, 5), (2, 6), (3, 7))


def test_every_figure_of_the_text_is_what_jobs_are_simulated_by() -> None:
    for figure in figures():
        assert figure.ours == pytest.approx(figure.published), figure


def test_jobs_are_the_same_under_every_contract_and_offer_the_load() -> None:
    scene = Scene("locality", 0.7, 2000, 1)
    plain, by_curve = scene.trace(""), scene.trace("curve")

    assert [job.submit_us for job in plain.jobs] == [job.submit_us for job in by_curve.jobs]
    assert [job.spec.model for job in plain.jobs] == [job.spec.model for job in by_curve.jobs]
    assert all(unfit_contract(job.spec) is None for job in by_curve.jobs)
    asked = sum(job.spec.gpus * job.duration_us for job in plain.jobs)
    assert asked / (GPUS * plain.jobs[-1].submit_us) == pytest.approx(0.7, rel=0.1)


def test_tension_has_four_jobs_of_one_gpu_to_one_gang() -> None:
    jobs = Scene("tension", 0.9, 2000, 1).trace("").jobs
    single = sum(job.spec.gpus == 1 for job in jobs)

    assert single / len(jobs) == pytest.approx(0.8, abs=0.03)
    assert {job.spec.gpus for job in jobs} == {1, 2, 4, 8}
    modes = ["spread", "pack", "adaptive"]
    assert [one.name for one in CONTENDERS["tension"]] == [*modes, "one server", "with moves"]
    strict = Scene("tension", 0.9, 200, 1).trace("server").jobs
    assert [replace(job.spec, max_level=None) for job in strict] == [job.spec for job in jobs[:200]]
    assert {job.spec.max_level for job in strict if job.spec.gpus > 1} == {Level.server}


@pytest.mark.parametrize(
    ("adaptive_h", "said"),
    [
        (1.02, "is within 3% of the better of spread and pack"),
        (1.5, "is 50.0% over the better of spread and pack, and no worse than the other"),
        (2.1, "is worse than both spread and pack, 110.0% over the better"),
    ],
)
def test_verdict_says_where_adaptive_placement_does_not_win(adaptive_h: float, said: str) -> None:
    rows = [
        ROW,
        replace(ROW, contender="pack", jct_h=2.0),
        replace(ROW, contender="adaptive", jct_h=adaptive_h),
    ]
    (found,) = verdicts(rows)

    assert said in found


@pytest.mark.parametrize(
    ("saved_h", "said"), [(2.0, "cuts the 95th"), (0.4, "does not surely cut the 95th")]
)
def test_verdict_says_where_moves_cut_the_waits_of_gangs(saved_h: float, said: str) -> None:
    strict = replace(ROW, contender="one server", large_wait_p95_h=3.0)
    moved = replace(strict, contender="with moves", large_wait_p95_h=3.0 - saved_h)
    moved = replace(moved, large_saved_h=saved_h, large_saved_half_h=0.5, moves_per_h=1.5)
    others = [replace(ROW, contender=name) for name in ("spread", "pack", "adaptive")]

    *_, found = verdicts([*others, strict, moved])

    assert said in found
    assert f"from 3.00 h to {3.0 - saved_h:.2f} h, by {saved_h:.2f} h ± 0.50 h" in found


def test_moves_are_compared_seed_by_seed_and_cut_the_waits_of_gangs() -> None:
    rows = compare_placements(["tension"], 120, range(2), loads=[0.7])
    by_name = {row.contender: row for row in rows}

    strict, moved = by_name["one server"], by_name["with moves"]
    assert moved.moves_per_h > 0
    assert strict.moves_per_h == 0
    assert moved.large_wait_p95_h is not None
    assert strict.large_wait_p95_h is not None
    saved_h = strict.large_wait_p95_h - moved.large_wait_p95_h
    assert moved.large_saved_h == pytest.approx(saved_h)
    assert saved_h > 0
    assert strict.large_saved_h is None


def pairs_of(scene: Scene) -> set[int]:
    """Return the GPUs that gangs of two are given where all are packed."""
    found = set()

    def given(event: AllocationChanged, _: View) -> None:
        if event.allocation.gpus == 2:
            found.add(event.allocation.shares[0].gpu_mask)

    (pack,) = [one for one in CONTENDERS["tension"] if one.name == "pack"]
    simulate(scene.config(pack), trace=scene.trace(""), listeners=[{AllocationChanged: given}])
    return found


def test_gangs_of_two_are_given_gpus_that_are_joined_across_sockets() -> None:
    scene = Scene("tension", 0.3, 120, 0)
    joined = {1 << gpu | 1 << other for gpu, other in PAIRS}

    assert set() < pairs_of(scene) <= {0b11, 0b1100, 0b110000, 0b11000000}
    assert set() < pairs_of(replace(scene, nvlink=PAIRS)) <= joined


def test_what_is_joined_is_said_on_the_command_line() -> None:
    few = ["reproduce", "topology", "--part", "interference", "--jobs", "20", "-j", "1", "--json"]
    linked = [word for gpu, other in PAIRS for word in ("--nvlink", f"{gpu},{other}")]
    found = json.loads(CliRunner().invoke(app, [*few, *linked]).stdout)
    assert found["nvlink"] == [list(pair) for pair in PAIRS]
    for group in ("0", "0,0", "0,8", "0-4"):
        refused = CliRunner().invoke(app, [*few, "--nvlink", group])
        assert f"--nvlink {group}: expected GPUs of a server of 8" in refused.stderr
        assert refused.exit_code == 2


def test_people_get_tables_and_programs_one_document() -> None:
    few = ["reproduce", "topology", "--part", "locality", "--jobs", "20", "-j", "1"]
    done = CliRunner().invoke(app, few)
    assert done.exit_code == 0, done.output
    assert "by contract" in done.stdout
    assert "at most 0.53" in done.stdout

    document = json.loads(CliRunner().invoke(app, [*few, "--json"]).stdout)
    assert len(document["rows"]) == 15
    assert (document["seeds"], document["nvlink"]) == ([0, 1, 2], [])
    assert all(row["slowdown"] >= 1 - 1e-6 for row in document["rows"])
