"""What holds for every test: how hypothesis searches, and what it prints when it finds something.

By default the search is the same on every run, so that a red test is red again and a green one
means something. `SHUNTER_HYPOTHESIS=explore` looks for new examples instead; a failure it finds
prints the example as a decorator to paste.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: the machine's load is no property of the code. Slow generation is neither.
settings.register_profile(
    "repeat",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    parent=settings.get_profile("repeat"),
    derandomize=False,
    max_examples=1_000,
)
settings.load_profile(os.environ.get("SHUNTER_HYPOTHESIS", "repeat"))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, which pytest's own need not be."""
    with tempfile.TemporaryDirectory(prefix="shunter-") as folder:
        yield Path(folder)
