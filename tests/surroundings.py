"""What tests need of a machine that no installation of Shunter brings: else they are left out.

`@pytest.mark.needs("root")` says so of a test. Such tests are not skipped one by one: the first
lines of a run name what is not here and what brings it. What one package would bring is skipped,
with the command that installs it.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

__all__ = ["HERE", "LeftOut"]

ROOT = Path(__file__).resolve().parents[1]
IS_ROOT = os.geteuid() == 0
HERE = {
    "root": (IS_ROOT, "run as root"),
    "another user than root": (not IS_ROOT, "run as somebody else"),
    "../shared": ((ROOT.parent / "shared").is_dir(), "public traces beside the checkout"),
    "polars": (find_spec("polars") is not None, "pip install polars"),
    "pandas": (find_spec("pandas") is not None, "pip install pandas"),
}
"""Whether it is here, and what brings it."""
FIXTURES = {"philly": "../shared", "shared_traces": "../shared", "theirs": "root"}
"""What tests need that use one of these."""


class LeftOut:
    """A pytest plugin that leaves out what cannot run here, and says so."""

    def pytest_report_header(self) -> str | None:
        """Name what is not here, and what would bring it."""
        lacking = [f"{what} ({brings})" for what, (is_here, brings) in HERE.items() if not is_here]
        return f"left out: tests that need {', or '.join(lacking)}" if lacking else None

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what needs something that is not here."""
        lacking = {id(item) for item in items if not all(HERE[what][0] for what in _needs(item))}
        if lacking:
            config.hook.pytest_deselected(items=[item for item in items if id(item) in lacking])
            items[:] = [item for item in items if id(item) not in lacking]


def _needs(item: pytest.Item) -> list[str]:
    marked = [str(what) for marker in item.iter_markers("needs") for what in marker.args]
    fixtures = getattr(item, "fixturenames", ())
    return [*marked, *(what for name, what in FIXTURES.items() if name in fixtures)]
