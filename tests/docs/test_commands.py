"""Every command of the tutorials and how-to guides is run, or the page says why it is not."""

import importlib.util
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

from shunter.cli import app
from tests.docs.pages import REASONS, Page, page_of, pages
from tests.docs.running import GIVEN, run_page, script_of

PAGES = pages()
_INLINE = re.compile(r"`(shunter [^`]+)`")
_PLACE = re.compile(r"^[A-Z_.…]+$")


def named(page: Page) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_command_stands_in_a_block_that_is_run(page: Page) -> None:
    assert page.faults == []
    assert set(page.given) <= set(GIVEN)
    assert "pkill" not in page.path.read_text(encoding="utf-8")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may pass through, as homes are: a daemon of root wants that."""
    with tempfile.TemporaryDirectory(prefix="docs-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


TRAINING = pytest.mark.xdist_group("training")  # two daemons may choose the same port
RUN = [page for page in PAGES if script_of(page)[1]]
RECIPES = [page for page in RUN if page.path.parent.name == "recipes"]
LONG = ("ask-when-a-job-starts", "share-gpus-in-turns")


def cases(pages: Sequence[Page]) -> list[ParameterSet]:
    """Return pages as the cases of a test."""
    return [
        pytest.param(
            page,
            marks=[
                *([TRAINING] if page.uses("$MASTER_PORT") else []),
                *([pytest.mark.long] if page.path.stem in LONG else []),
            ],
        )
        for page in pages
    ]


@pytest.mark.live
@pytest.mark.parametrize("page", cases([page for page in RUN if page not in RECIPES]), ids=named)
def test_page_runs_as_it_stands(page: Page, folder: Path) -> None:
    assert_page_runs(page, folder)


@pytest.mark.live
@pytest.mark.rotating("page")  # each trains for half a minute
@pytest.mark.parametrize("page", cases(RECIPES), ids=named)
def test_recipe_runs_as_it_stands(page: Page, folder: Path) -> None:
    assert_page_runs(page, folder)


def assert_page_runs(page: Page, folder: Path) -> None:
    """Hold a page to be run whole, unless it needs a module that is not here."""
    lacking = [module for module in page.needs if importlib.util.find_spec(module) is None]
    if lacking:
        pytest.skip(f"{' and '.join(lacking)} not installed: make live does it")
    assert run_page(page, folder) == script_of(page)[1]


def test_most_commands_are_run() -> None:
    """A reason is an exception: of all commands that stand in blocks three in four are run."""
    ran = sum(len(script_of(page)[1]) for page in PAGES)
    blocks = [block for page in PAGES for block in page.blocks if block.not_run]
    left = sum(len(block.commands) or 1 for block in blocks)
    assert ran > 50
    assert ran > 3 * left


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_in_sentences_exist(page: Page) -> None:
    """`shunter X --option` in a sentence is a command that there is, with options it takes."""
    text = re.sub(r"^```.*?^```", "", page.path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for said in _INLINE.findall(text):
        command, words = get_command(app), shlex.split(said.replace("\n", " "))[1:]
        while words and isinstance(command, TyperGroup) and not words[0].startswith("-"):
            inner = command.get_command(Context(command), words.pop(0))
            assert inner is not None, f"{page.name}: there is no `{said}`"
            command = inner
        known = {name for one in command.params for name in one.opts} | {"--help"}
        if "--" in words:
            words = words[: words.index("--")]
        unknown = [
            word for word in words if word.startswith("-") and word.split("=")[0] not in known
        ]
        assert unknown == [], f"{page.name}: `{said}` has no {unknown}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```\nshunter queue\n```\n", "expected a language"),
        ("```text\n$ shunter queue\n```\n", "a command in a block"),
        ("```bash\nshunter queue\n```\n", "a command in a block"),
        ("    shunter queue\n", "outside of a console block"),
        ("```console\nshunter queue\n```\n", "without a command"),
        ("<!-- not run: because -->\n```console\n$ x\n```\n", "expected one of"),
        ("<!-- not run: time -->\n```console\n$ x\n```\n", "and words"),
        ("<!-- skip -->\n", "no comment"),
        ("<!-- file: a -->\nwords\n", "expected a block"),
        ("```console\n$ x\n", "without an end"),
    ],
)
def test_command_that_would_not_be_run_is_a_fault(text: str, fault: str) -> None:
    faults = page_of(Path("docs/how-to/x.md"), text).faults
    assert [fault in told for told in faults] == [True], faults


def test_added_command_is_run(tmp_path: Path) -> None:
    text = "<!-- file: a.txt -->\n```text\nhere\n```\n```console\n$ cat a.txt\nhere\n$ false\n```\n"
    page = page_of(Path("docs/how-to/x.md"), text)
    assert script_of(page)[1] == ["cat a.txt", "false"]
    with pytest.raises(AssertionError, match="line 5: false"):
        run_page(page, tmp_path)


def test_program_is_run_and_a_shown_one_is_not(tmp_path: Path) -> None:
    why = f"time: {REASONS['time']}"
    text = f"```python\nopen('a', 'w')\n```\n<!-- not run: {why} -->\n```python\n1 / 0\n```\n"
    page = page_of(Path("docs/how-to/x.md"), text)
    assert run_page(page, tmp_path) == ["python program-1.py"]
    assert (tmp_path / "work" / "a").exists()


def test_page_says_which_modules_it_needs() -> None:
    text = "<!-- needs: torch, lightning -->\n```console\n$ x\n```\n"
    page = page_of(Path("docs/recipes/x.md"), text)
    assert (page.needs, page.faults) == (["torch", "lightning"], [])
