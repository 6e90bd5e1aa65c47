"""The shipped table, derived again."""

from pathlib import Path

import pytest

from shunter.errors import UsageError
from shunter.workloads import LIMIT_USE_MIN, LIMITS_S, main, philly_table_bytes


def test_shipped_table_is_what_the_trace_gives(philly: Path, tmp_path: Path) -> None:
    main(["philly", str(philly), str(tmp_path / "philly.json")])
    assert (tmp_path / "philly.json").read_bytes() == philly_table_bytes()


def test_two_paths_are_needed() -> None:
    with pytest.raises(UsageError, match="takes two paths"):
        main(["philly", "philly.csv"])


def test_longest_limit_exceeds_the_longest_job() -> None:
    assert LIMITS_S[-1] > 4_628_226
    assert LIMIT_USE_MIN > 0
