"""Pages of commands: which blocks they have, and what is to become of each.

Every fenced block says by its language what it is. `console` holds commands after `$ `, and what
they print; `python` a program. Both are run, in the order of the page. A comment before a block
says more:

    <!-- file: lab.toml -->           the block is this file
    <!-- given: a live log -->        made beforehand, by a function of GIVEN in running.py
    <!-- in: checkout -->             the page is run in a copy of the checkout, not an empty folder
    <!-- needs: torch -->             the page is run where Python has these modules
    <!-- not run: WHY: in words -->   the next block is shown only; WHY is one of REASONS
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["FOLDERS", "REASONS", "ROOT", "Block", "Page", "page_of", "pages"]

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs/tutorials", "docs/how-to", "docs/recipes", "docs/coming-from")
REASONS = {
    "hosts": "needs servers to log in to",
    "installs": "installs packages",
    "time": "takes many minutes",
    "torch": "needs PyTorch",
    "data": "needs a trace that is not in this repository",
}
SHOWN = frozenset({"text", "toml", "yaml", "bash", "{toctree}"})
"""Languages of blocks that are no commands; a file may be of any of them."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\s*$")
_COMMENT = re.compile(r"^<!-- (?P<what>file|given|in|needs|not run): (?P<said>.+?) -->$")
_LOOSE = re.compile(r"^(?: {4,}|\t)(?:\$ |shunter |make |pip |python |git |\.venv/)")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, what it is, and what was said of it."""

    line: int
    language: str
    text: str
    file: str = ""
    not_run: str = ""

    @property
    def commands(self) -> list[str]:
        """The commands of a console block; a line that ends in a backslash goes on."""
        found: list[str] = []
        goes_on = False
        for line in self.text.splitlines():
            if goes_on:
                found[-1] += "\n" + line.removeprefix("> ")
            elif line.startswith("$ "):
                found.append(line[2:])
            else:
                continue
            goes_on = line.endswith("\\")
        return found


@dataclass
class Page:
    """A page: its blocks, what it is given, which modules it needs, and what is wrong with it."""

    path: Path
    blocks: list[Block] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    is_in_checkout: bool = False
    faults: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name within docs."""
        return f"{self.path.parent.name}/{self.path.name}"

    def uses(self, words: str) -> bool:
        """Return whether a file or a command of it has these words."""
        return any(words in block.text for block in self.blocks if not block.not_run)


def pages() -> list[Page]:
    """Return all pages of commands, in order of folder and name."""
    return [
        page_of(path, path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).glob("*.md"))
    ]


def page_of(path: Path, text: str) -> Page:
    """Return what a page holds; what fits no rule is among its faults."""
    page, said = Page(path), dict[str, str]()
    fence: re.Match[str] | None = None
    begun, body = 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if fence is not None:
            if line.strip() == "```":
                _add(page, Block(begun, fence["language"], "\n".join(body) + "\n", **_of(said)))
                fence, said = None, {}
            else:
                body.append(line.removeprefix(fence["indent"]))
        elif found := _FENCE.match(line):
            fence, begun, body = found, number, []
        elif comment := _COMMENT.match(line):
            _take(page, comment, said, number)
        elif line.startswith("<!--"):
            page.faults.append(f"{number}: no comment that this test knows: {line}")
        elif _LOOSE.match(line):
            page.faults.append(f"{number}: a command outside of a console block")
        elif line.strip() and said:
            page.faults.append(f"{number}: expected a block after {said}")
            said = {}
    if fence is not None:
        page.faults.append(f"{begun}: a block without an end")
    return page


def _of(said: dict[str, str]) -> dict[str, str]:
    return {name.replace(" ", "_"): value for name, value in said.items()}


def _take(page: Page, comment: re.Match[str], said: dict[str, str], number: int) -> None:
    what, value = comment["what"], comment["said"]
    if what == "given":
        page.given.append(value)
    elif what == "needs":
        page.needs += value.split(", ")
    elif what == "in":
        page.is_in_checkout = value == "checkout"
    else:
        said[what] = value
    why = value.partition(":")[0]
    if what == "not run" and (why not in REASONS or len(value) < len(why) + 12):
        page.faults.append(f"{number}: not run: expected one of {', '.join(REASONS)}, and words")


def _add(page: Page, block: Block) -> None:
    page.blocks.append(block)
    if block.file or block.language == "python":
        return
    if block.language == "console":
        if not block.commands:
            page.faults.append(f"{block.line}: a console block without a command")
    elif block.language not in SHOWN:
        page.faults.append(f"{block.line}: expected a language: console for commands")
    elif re.search(r"^(\$ |shunter (?!\d))", block.text, re.MULTILINE):
        page.faults.append(f"{block.line}: a command in a block of {block.language}")
