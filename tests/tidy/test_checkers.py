"""Every checker finds its fault in a snippet, and leaves the nearest good one alone."""

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

import pytest

from tests.tidy import bans, clocks, rooms, sizes, words
from tests.tidy.source import Finding, Source

Checker = Callable[[Source], Iterator[Finding]]

CORE = "shunter/core/step.py"
ANYWHERE = "shunter/cli.py"
LIVE = "shunter/backends/live/inbox.py"
LONG_SUMMARY = "a" * 80


def body(lines: int) -> str:
    return "\n".join(["def f():", *["    pass"] * (lines - 1)])


BAD = [
    (sizes.functions, CORE, body(71)),
    (sizes.functions, CORE, "class C:\n    async def f(self):\n" + "        pass\n" * 70),
    (sizes.lines, CORE, "x = '" + "a" * 96 + "'"),
    (bans.outside_world, CORE, "import time"),
    (bans.outside_world, CORE, "import os.path as p"),
    (bans.outside_world, CORE, "from random import Random"),
    (bans.outside_world, CORE, "def f():\n    import sqlalchemy"),
    (bans.outside_world, "shunter/policies/las.py", "from uuid import uuid4"),
    (bans.outside_world, "shunter/core/fold/jobs.py", "import anyio"),
    (bans.outside_world, "shunter/core/round_loop.py", "import asyncio"),
    (bans.clock_and_chance, CORE, "datetime.now()"),
    (bans.clock_and_chance, CORE, "datetime.datetime.utcnow()"),
    (bans.clock_and_chance, CORE, "np.random.rand(3)"),
    (bans.clock_and_chance, CORE, "key = hash(job)"),
    (bans.newer_methods, "shunter/backends/node/x.py", "int(said.removeprefix(IDLE))"),
    (bans.async_in_core, CORE, "async def f(): pass"),
    (bans.async_in_core, "shunter/policies/las.py", "async def f(): await x"),
    (bans.set_iteration, ANYWHERE, "for x in {1, 2}: pass"),
    (bans.set_iteration, ANYWHERE, "[x for x in set(y)]"),
    (bans.set_iteration, ANYWHERE, "list(set(y))"),
    (bans.set_iteration, ANYWHERE, "for n, x in enumerate(frozenset(y)): pass"),
    (bans.set_iteration, ANYWHERE, "for x in set(a) - b: pass"),
    (bans.set_iteration, ANYWHERE, "for x in {x for x in y}.union(z): pass"),
    (bans.set_iteration, ANYWHERE, "f(*{1, 2})"),
    (bans.set_iteration, ANYWHERE, "','.join({a, b})"),
    (bans.unsorted_listing, ANYWHERE, "for x in os.listdir(p): pass"),
    (bans.unsorted_listing, ANYWHERE, "paths = list(folder.glob('*'))"),
    (bans.unsorted_listing, ANYWHERE, "glob('*')"),
    (bans.unsorted_listing, ANYWHERE, "[x for x in folder.iterdir()]"),
    (bans.unsorted_listing, ANYWHERE, "with os.scandir(p) as found: list(found)"),
    (bans.blind_except, CORE, "try: f()\nexcept Exception: pass"),
    (bans.blind_except, CORE, "try: f()\nexcept (OSError, BaseException) as e: pass"),
    (bans.blind_except, CORE, "try: f()\nexcept: pass"),
    (clocks.direct_time, LIVE, "import time\ntime.monotonic()"),
    (clocks.direct_time, LIVE, "import time as t\nbegan = t.time_ns()"),
    (clocks.direct_time, LIVE, "import time\ndef f(now=time.monotonic): pass"),
    (clocks.direct_time, LIVE, "import time\ntime.sleep(1)"),
    (clocks.direct_time, LIVE, "import time\ntime.strftime('%Y')"),
    (clocks.direct_time, LIVE, "import time\ntime.strftime('%Y', time.localtime())"),
    (clocks.direct_time, LIVE, "def f():\n    from time import perf_counter"),
    (clocks.direct_time, LIVE, "from time import *"),
    (clocks.direct_time, LIVE, "from shunter.backends.node.ownership import uptime_ns"),
    (clocks.direct_time, LIVE, "import datetime\ndatetime.datetime.now(UTC)"),
    (clocks.direct_time, LIVE, "from datetime import date\ndate.today()"),
    (clocks.direct_time, LIVE, "import anyio\nanyio.current_time()"),
    (clocks.direct_time, "tests/doubles/virtual_clock.py", "import time\ntime.time()"),
    (words.docstrings, CORE, "x = 1"),
    (words.docstrings, CORE, '"""M."""\ndef f(): pass'),
    (words.docstrings, CORE, '"""M."""\nclass C: pass'),
    (words.docstrings, CORE, f'"""M."""\ndef f():\n    """{LONG_SUMMARY}"""'),
    (words.docstrings, CORE, f'"""M."""\nclass _C:\n    def f():\n        """{LONG_SUMMARY}"""'),
    (words.file_names, "shunter/core/utils.py", ""),
    (words.file_names, "tests/unit/helpers.py", ""),
    (words.package_files, "shunter/core/__init__.py", "__all__ = []\ndef f(): pass"),
    (words.package_files, "shunter/core/__init__.py", "__all__ = []\nTABLE = {}"),
    (words.package_files, "shunter/core/__init__.py", "__all__ = []\nif x: import y"),
    (words.ignores, CORE, "x = 1  # " + "noqa"),
    (words.ignores, CORE, "x = 1  # " + "noqa: E501"),
    (words.ignores, CORE, "x = 1  # " + "type: ignore"),
    (words.ignores, CORE, "x = 1  # " + "type: ignore[arg-type]"),
    (words.todos, CORE, "# TO" + "DO: later"),
    (words.todos, CORE, "# FIX" + "ME(#3): later"),
    (words.machine_paths, "docs/index.md", "cd /" + "home/alice"),
    (words.machine_paths, "docs/index.md", "`/" + "root`"),
    (words.machine_paths, "pyproject.toml", 'path = "/' + 'work/main"'),
    (words.registry_addresses, "README.md", "https://" + "pypi" + ".org/project/x"),
    (words.registry_addresses, "README.md", "https://x.example/a-1.0-py3-none-any" + ".whl"),
    (words.registry_addresses, "requirements/run.txt", "--index" + "-url https://x.example"),
    (words.registry_addresses, "README.md", "docker pull " + "ghcr" + ".io/x/y"),
]

GOOD = [
    (sizes.functions, CORE, body(70)),
    (sizes.lines, CORE, "x = '" + "a" * 94 + "'"),
    (bans.outside_world, "shunter/core/round_loop.py", "import anyio"),
    (bans.outside_world, "shunter/core/step.py", "from shunter.core.time import Instant"),
    (bans.outside_world, ANYWHERE, "import time"),
    (bans.clock_and_chance, CORE, "self.now()"),
    (bans.clock_and_chance, ANYWHERE, "datetime.now()"),
    (bans.newer_methods, CORE, "mask.bit_count()"),
    (bans.async_in_core, "shunter/core/interfaces.py", "async def f(): ..."),
    (bans.async_in_core, "shunter/backends/local.py", "async def f(): ..."),
    (bans.set_iteration, ANYWHERE, "for x in sorted({1, 2}): pass"),
    (bans.set_iteration, ANYWHERE, "len(set(y)); x in {1, 2}; {1} | {2}"),
    (bans.unsorted_listing, ANYWHERE, "for x in sorted(os.listdir(p)): pass"),
    (bans.unsorted_listing, ANYWHERE, "sorted(x.name for x in folder.glob('*'))"),
    (bans.unsorted_listing, ANYWHERE, "with os.scandir(p) as found: sorted(found)"),
    (bans.blind_except, CORE, "try: f()\nexcept (OSError, ValueError): pass"),
    (
        bans.blind_except,
        "shunter/core/planning/fault_barrier.py",
        "try: f()\nexcept Exception: pass",
    ),
    (clocks.direct_time, LIVE, "from shunter import clock\nclock.monotonic_s()"),
    (clocks.direct_time, LIVE, "import time\ntime.strftime('%Y', time.localtime(at_s))"),
    (clocks.direct_time, LIVE, "from datetime import datetime\ndatetime.fromtimestamp(1, UTC)"),
    (clocks.direct_time, LIVE, "import anyio\nanyio.sleep(1); message.time"),
    (clocks.direct_time, "shunter/clock.py", "import time\ntime.time()"),
    (clocks.direct_time, "shunter/backends/node/session.py", "import time\ntime.time()"),
    (clocks.direct_time, "tests/test_x.py", "import time\ntime.time()"),
    (words.docstrings, CORE, '"""M."""\ndef _f(): pass\nclass C:\n    """C."""\n    def f(): pass'),
    (words.docstrings, CORE, '"""M."""\n@overload\ndef f(): ...\ndef f():\n    """Do."""'),
    (words.docstrings, "tests/test_x.py", "def test_x(): pass"),
    (words.file_names, "shunter/core/state.py", ""),
    (words.package_files, "shunter/core/__init__.py", '"""M."""\nimport x\n__all__ = ["x"]'),
    (words.package_files, "shunter/core/__init__.py", "__all__: list[str] = []"),
    (words.package_files, "shunter/core/state.py", "x = 1"),
    (words.ignores, CORE, "x = 1  # " + "noqa: E501 the table reads better in one row"),
    (words.ignores, CORE, "x = 1  # " + "type: ignore[arg-type]  # the stub is wrong here"),
    (words.ignores, CORE, "x = '# " + "noqa'"),
    (words.todos, CORE, "# TO" + "DO(#12): read segments as well"),
    (words.machine_paths, "docs/index.md", "https://x.example/" + "work/ and ./home/x and /homes"),
    (words.registry_addresses, "README.md", "https://x.example/paper.pdf"),
]


@pytest.mark.parametrize(("checker", "path", "text"), BAD)
def test_fault_is_found(checker: Checker, path: str, text: str) -> None:
    assert list(checker(Source(path, text)))


@pytest.mark.parametrize(("checker", "path", "text"), GOOD)
def test_good_code_is_left_alone(checker: Checker, path: str, text: str) -> None:
    assert not list(checker(Source(path, text)))


def test_every_checker_has_a_bad_and_a_good_snippet() -> None:
    modules = (sizes, bans, clocks, words)
    every = {getattr(module, name) for module in modules for name in module.__all__}
    assert {checker for checker, _, _ in BAD} == every == {checker for checker, _, _ in GOOD}


def test_finding_reads_like_a_compiler_message() -> None:
    (finding,) = bans.outside_world(Source(CORE, "x = 1\nimport time"))
    assert str(finding) == "shunter/core/step.py:2: imports time: no outside world here"


def house(**texts: str) -> rooms.House:
    """A house whose files are named with `__` for a slash, each folder with an empty face."""
    named = {f"{name.replace('__', '/')}.py": text for name, text in texts.items()}
    folders = {str(folder) for name in named for folder in PurePosixPath(name).parents}
    empty = {f"{folder}/__init__.py": "" for folder in sorted(folders) if folder.startswith("a")}
    return rooms.House([Source(path, text) for path, text in {**empty, **named}.items()], "a")


def test_circle_of_modules_is_found_where_only_a_type_checker_follows_it() -> None:
    one = "from a import two"
    two = "if TYPE_CHECKING:\n    from a.three import f"
    circle = rooms.module_circle(
        house(a__one=one, a__two=two, a__three="def f():\n    import a.one")
    )
    assert set(circle) == {"a.one", "a.two", "a.three"}
    assert rooms.module_circle(house(a__one=one, a__two=two, a__three="import os")) == []


def test_circle_of_folders_is_found_where_no_two_modules_import_each_other() -> None:
    there = {"a__x__one": "from a.y.two import f", "a__x__three": "", "a__y__two": ""}
    assert list(rooms.folder_circles(house(**there))) == []
    back = {**there, "a__y__four": "from a.x import three"}
    assert [set(found) for found in rooms.folder_circles(house(**back))] == [{"a.x", "a.y"}]
    assert rooms.module_circle(house(**back)) == []
    # A folder and what it holds count as one, a module at the root counts alone.
    held = {"a__x__one": "from a.x.deep.two import f", "a__x__deep__two": "", "a__root": ""}
    assert list(rooms.folder_circles(house(**held))) == []
    deep = {**held, "a__x__deep__two": "from a.x import three", "a__x__three": ""}
    assert list(rooms.folder_circles(house(**deep))) == []
    above = {**held, "a__root": "from a.x.one import f", "a__x__deep__two": "from a import root"}
    assert [set(found) for found in rooms.folder_circles(house(**above))] == [{"a.x", "a.root"}]


@pytest.mark.parametrize(
    ("importer", "text", "found"),
    [
        ("a__y__two", "from a.x.one import f", 1),
        ("a__y__two", "from a.x import one", 1),
        ("a__y__two", "import a.x.one", 1),
        ("a__y__two", "def g():\n    from a.x.one import f", 1),
        ("tests__test_x", "from a.x.one import f", 1),
        ("a__y__two", "from a.x import f", 0),
        ("a__x__deep__three", "from a.x.one import f", 0),
        ("a__y__two", "from a.root import f", 0),
        ("tests__test_x", "from a.x import f, one", 0),
    ],
)
def test_what_lies_outside_of_a_room_imports_its_face(importer: str, text: str, found: int) -> None:
    built = house(**{"a__x__one": "", "a__root": "", importer: text})
    assert len(list(rooms.faces(built))) == found


def test_a_class_has_a_name_of_its_own_in_its_room() -> None:
    twice = rooms.class_names(house(a__x__one="class C: ...", a__x__two="class C: ..."))
    assert [finding.what for finding in twice] == ["C is a class of a.x.one as well"]
    assert not list(rooms.class_names(house(a__x__one="class C: ...", a__y__two="class C: ...")))
