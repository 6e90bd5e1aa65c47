"""How far `submit --dry-run` and `queue --forecast` say that a forecast is to be trusted."""

from typing import Any

from shunter.cli import forecast_trust


def _found(ended: int | None) -> dict[str, Any]:
    none = {"jobs": 3, "by_p50": 0, "by_p90": 0, "share_by_p90": 0.0}
    ends = none if ended is None else {"ended": ended, **none}
    accuracy = {"moments": 1, **none, "jobs": 0, "ends": ends}
    found = {"samples": 1, "seq": 9, "now": "now", "assumptions": []}
    return {**found, "accuracy": accuracy}


def test_no_share_of_ends_is_said_where_no_job_has_ended() -> None:
    assert forecast_trust(_found(0))[2] == "accuracy of ends: not known yet, as no job has ended"
    assert forecast_trust(_found(1))[2].startswith("accuracy of ends: 0.0 % of 3 past jobs ended")
    assert forecast_trust(_found(None))[2].startswith(
        "accuracy of ends: 0.0 % of 3 past jobs ended"
    )


def test_one_is_counted_as_one() -> None:
    said = forecast_trust(_found(0))
    assert said[0] == "simulated 1 time from e9 on, now"
    assert "at 1 past moment, from" in said[3]
