"""The table of what launchers do with signals is what the real ones do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import launchers_page
from tests.live.launchers.measured import LAUNCHERS, Bench, came_of, events

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("launchers")]

ROWS = [(name, what) for name, launcher in LAUNCHERS.items() for what in events(launcher)]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("launchers"))
    yield bench
    bench.close()


@pytest.mark.rotating("what")
@pytest.mark.parametrize(("name", "what"), ROWS)
def test_launcher_does_what_its_table_says(name: str, what: str, bench: Bench) -> None:
    launcher = LAUNCHERS[name]
    if launcher.lacks:
        pytest.skip(launcher.lacks)
    expected = launchers_page.kept()[name]["rows"][what]
    again = "run: python -m tests.live.launchers.measured, and say in CHANGELOG.md what changed"
    assert came_of(bench, launcher, what) == expected, again


def test_page_is_up_to_date_and_has_every_launcher(tmp_path: Path) -> None:
    assert list(launchers_page.kept()) == list(LAUNCHERS)
    assert launchers_page.PAGE.read_text(encoding="utf-8") == launchers_page.page(), (
        "run: python -m docs.launchers_page"
    )
