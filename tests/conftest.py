"""What holds for every test: how hypothesis searches, and what it prints when it finds something.

By default the search is the same on every run, so that a red test is red again and a green one
means something. `SHUNTER_HYPOTHESIS=explore` looks for new examples instead; a failure it finds
prints the example as a decorator to paste. With SHUNTER_THOROUGH in the environment (`make test
THOROUGH=1`) a search is twice as long. Of the dear ones, and of cases that repeat the same with
other seeds, a run plays the tenth of its commit (tests/slices.py).
"""

import gc
import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.marked import is_said_to_hold
from tests.slices import THOROUGH, Rotation
from tests.surroundings import LeftOut
from tests.tracebacks import with_lines

NAMED_LENGTH = 60
LIVE = Path(__file__).parent / "live"
ALONE = ("xdist_group", "long")

# No deadlines: the machine's load is no property of the code. Slow generation is neither.
settings.register_profile(
    "repeat",
    max_examples=100 if THOROUGH else 50,
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


def pytest_configure(config: pytest.Config) -> None:
    """Leave out what cannot run here, and the cases of other slices."""
    config.pluginmanager.register(LeftOut())
    config.pluginmanager.register(Rotation())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Read the tests without looking for garbage: nearly all that is read stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a case by the beginning of a long text: each worker sends all names."""
    if isinstance(val, str | bytes) and len(val) > NAMED_LENGTH:
        return f"{val[:NAMED_LENGTH]!a} of {len(val)}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Hold marks; begin with what one process has to do alone, so that none is late with it."""
    _hold_marks(items)
    if getattr(config.option, "loadgroup", False):  # a worker of xdist, as all others are
        items.sort(key=lambda item: not any(map(item.get_closest_marker, ALONE)))


def _hold_marks(items: list[pytest.Item]) -> None:
    """Refuse forgotten marks, and those that the runner of marked tests would not find."""
    for marker in ("live", "fidelity"):
        marked = {item.path for item in items if item.get_closest_marker(marker)}
        hidden = {path for path in marked if not is_said_to_hold(path, marker)}
        if hidden:
            raise pytest.UsageError(
                f"tests marked {marker} that tests/marked.py would not run, for no mark stands in"
                f" the file or the conftest.py beside it: {', '.join(sorted(map(str, hidden)))}"
            )
    unmarked = {item.path for item in items if not item.get_closest_marker("live")}
    forgotten = sorted(str(path) for path in unmarked if LIVE in path.parents)
    if forgotten:
        raise pytest.UsageError(f"below tests/live, but not marked live: {', '.join(forgotten)}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Let a failure be reported whose traceback lacks a line, as some of Python 3.11 do.

    pytest ends the whole worker over it, with all tests that were still to run.
    """
    if call.excinfo is not None:
        error = call.excinfo.value
        call.excinfo = pytest.ExceptionInfo.from_exception(with_lines(error))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, which pytest's own need not be."""
    with tempfile.TemporaryDirectory(prefix="shunter-") as folder:
        yield Path(folder)
