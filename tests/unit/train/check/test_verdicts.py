"""What a check says of a run that was asked to leave."""

from typing import Any

from shunter.train.check.attempts import Attempt
from shunter.train.check.points import Point
from shunter.train.check.verdicts import EXACT, FAILED, verdict

SAW = {"what": "saw", "epoch": 0, "seen": {"loss": "a1"}, "chance": {}, "held": {}, "variables": {}}
POINT = Point("mid-epoch", (("saw", 1),))


def attempt(code: int, *records: Any, error: str = "") -> Attempt:
    told = [{"what": "failed", "error": error}] if error else []
    return Attempt(code, list(records), told, "")


def test_run_that_could_not_save_and_trained_on_to_its_end_has_failed() -> None:
    stayed = attempt(0, SAW, {"what": "asked"}, SAW, error="OSError: no space")
    found = verdict(POINT, [stayed], [SAW, SAW])
    assert (found.outcome, found.because) == (FAILED, ("it could not save: OSError: no space",))
    assert not found.is_good


def test_run_that_left_and_went_on_with_equal_bits_is_exact() -> None:
    left, went_on = attempt(75, SAW, {"what": "asked"}), attempt(0, SAW)
    assert verdict(POINT, [left, went_on], [SAW, SAW]).outcome == EXACT
