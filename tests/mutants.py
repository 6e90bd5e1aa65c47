"""Mutants: python -m tests.mutants --seed 35 --count 150 --before PATH --after PATH [--only 1,2].

Whether a change of the tests lost one that finds faults. Statements are drawn by a seed from the
functions of shunter/ that two trees share, one fault is put into each, and the tests that execute
it are run in both trees. What was caught before and survives after is a test that was lost.

Which tests execute a statement is found by a run of TESTS in each tree with probes in the drawn
statements: it costs what the tests cost, and needs no tracing. What it finds is kept in --folder,
and read from there the next time: a folder is for one pair of trees. Every file is put back,
whatever happens; nothing else may work in the trees meanwhile. A statement that no test of TESTS
executes is told as unexecuted.
"""

import argparse
import ast
import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Mutant", "drawn", "functions_of", "main", "mutated"]

TESTS = ("tests/unit", "tests/behaviour", "tests/property", "tests/replay", "tests/peers")
PYTEST = ("-q", "-p", "no:cacheprovider", "-m", "not fidelity and not live")
LIMIT_S = 60.0
FAILED = 1  # the exit status of pytest when a test has failed
FIRST_S = 5.0  # how long the tests may take, unmutated, that are run first
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
# Loaded into pytest by -p, and by sitecustomize into Python processes that tests start, unless they
# ignore the environment: there the probes do nothing. What a fixture executes is of all tests of
# its file, since one of a module is set up for the first of them only.
PROBE = """
import os
seen = set()
def write(text):
    with open(os.environ.get("MUTANTS_FOUND", os.devnull), "a") as file:
        file.write(text + "\\n")
def hit(number):
    test, _, phase = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")
    if phase == "(setup)":
        test = test.partition("::")[0]
    if (number, test) not in seen:
        seen.add((number, test))
        write(f"hit\\t{number}\\t{test}")
def pytest_runtest_logreport(report):
    if report.when == "call":
        write(f"{report.outcome}\\t{report.duration}\\t{report.nodeid}")
def pytest_sessionfinish(session):
    write("end\\t0\\t")
"""


@dataclass(frozen=True)
class Function:
    """A function of a tree, whose statements are in the order of its source."""

    file: str
    name: str
    dump: str
    statements: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class Mutant:
    """A fault: what is done to one statement of a function that both trees have."""

    number: int
    name: str
    kind: str
    before: tuple[str, int]  # file and line of the statement
    after: tuple[str, int]
    old: str
    new: str
    places: tuple[tuple[int, int, int, int], tuple[int, int, int, int]]  # of `old`, in bytes


def functions_of(tree: Path) -> dict[tuple[str, str], Function]:
    """Return the functions of shunter/ by qualified name and dump, without those told twice."""
    found: dict[tuple[str, str], Function] = {}
    twice: set[tuple[str, str]] = set()
    for path in sorted((tree / "shunter").rglob("*.py")):
        file = str(path.relative_to(tree))
        for name, node in _functions_in(ast.parse(path.read_text("utf-8")), ""):
            statements = tuple(_statements(node))
            key = (name, ast.dump(_without_docstrings(node)))
            if key in found:
                twice.add(key)
            found[key] = Function(file, *key, statements)
    return {key: function for key, function in found.items() if key not in twice}


def _functions_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield functions that are in no other function, with their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions_in(child, f"{prefix}{child.name}.")


def _without_docstrings(node: ast.AST) -> ast.AST:
    bare = copy.deepcopy(node)
    for inner in ast.walk(bare):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner.body = inner.body[_has_docstring(inner) :]
    return bare


def _has_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a function that can be mutated, whose order is that of the dump."""
    for child in ast.walk(node):
        if child is not node and isinstance(child, ast.stmt) and _faults(child):
            yield child


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a statement evaluates itself: no nested statements, annotations or f-strings."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "ctx"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr | ast.comprehension | ast.keyword | ast.withitem):
                if isinstance(child, ast.JoinedStr):
                    continue
                yield child
                yield from _own(child)


def _faults(statement: ast.stmt) -> list[tuple[str, ast.AST, ast.AST | None]]:
    """Return kind, what is replaced, and by what (None: by nothing), for each possible fault."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Match)
    if isinstance(statement, (*definitions, ast.Raise, ast.Assert)):
        return []  # what a message says is pinned by no test; an assertion is not to be reached
    found: list[tuple[str, ast.AST, ast.AST | None]] = []
    if isinstance(statement, ast.Expr):
        if not isinstance(statement.value, ast.Call | ast.Await) or _logs(statement.value):
            return []
        found.append(("call dropped", statement, None))
    if isinstance(statement, ast.Return) and statement.value is not None:
        none = isinstance(statement.value, ast.Constant) and statement.value.value is None
        found += [] if none else [("return None", statement.value, ast.Constant(None))]
    if isinstance(statement, ast.If | ast.While):
        found.append(("test negated", statement.test, ast.UnaryOp(ast.Not(), statement.test)))
    if isinstance(statement, ast.AugAssign) and type(statement.op) in SWAPPED:
        new = copy.deepcopy(statement)
        new.op = SWAPPED[type(statement.op)]()
        found.append(("arithmetic", statement, new))
    for node in _own(statement):
        found += _faults_of(node)
    return found


def _faults_of(node: ast.AST) -> list[tuple[str, ast.AST, ast.AST | None]]:
    new: ast.AST = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in FLIPPED:
        new.ops[0] = FLIPPED[type(new.ops[0])]()
        return [("compare", node, new)]
    if isinstance(new, ast.BinOp) and type(new.op) in SWAPPED:
        new.op = SWAPPED[type(new.op)]()
        return [("arithmetic", node, new)]
    if isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        return [("and/or", node, new)]
    if isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        return [("not dropped", node, new.operand)]
    if isinstance(new, ast.Constant):
        value = new.value
        if isinstance(value, bool):
            return [("constant", node, ast.Constant(not value))]
        if isinstance(value, int | float):
            return [("constant", node, ast.Constant(value + 1))]
        # Sentences are pinned once, in their tables: a word is a key, a kind or a state.
        if isinstance(value, str) and value.isidentifier():
            return [("constant", node, ast.Constant(value + "x"))]
    return []


def _logs(value: ast.expr) -> bool:
    text = ast.unparse(value).lower()
    return text.startswith(("log.", "logger.", "_log.", "_logger.", "logging.", "warnings."))


def drawn(before: Path, after: Path, seed: int, count: int) -> list[Mutant]:
    """Draw `count` statements that both trees have, with one fault for each."""
    old, new = functions_of(before), functions_of(after)
    shared = [
        (key, index)
        for key in sorted(old.keys() & new.keys(), key=lambda key: (new[key].file, *key))
        for index, statement in enumerate(new[key].statements)
        if _begins_line(after / new[key].file, statement)
    ]
    chance = random.Random(seed)
    mutants = []
    for number, (key, index) in enumerate(chance.sample(shared, min(count, len(shared))), 1):
        was, now = old[key].statements[index], new[key].statements[index]
        which = chance.randrange(len(_faults(now)))
        kind, node, fault = _faults(now)[which]
        places = (_place(_faults(was)[which][1]), _place(node))
        at = ((old[key].file, was.lineno), (new[key].file, now.lineno))
        text = "pass" if fault is None else ast.unparse(fault)
        if isinstance(fault, ast.expr) and not isinstance(fault, ast.Constant):
            text = f"({text})"
        mutants.append(Mutant(number, key[0], kind, *at, ast.unparse(node), text, places))
    return mutants


def _place(node: ast.AST) -> tuple[int, int, int, int]:
    assert isinstance(node, ast.stmt | ast.expr)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _begins_line(path: Path, statement: ast.stmt) -> bool:
    """Whether a probe can stand before it: an elif has no place for one."""
    line = _lines(path)[statement.lineno - 1]
    return not line[: statement.col_offset].strip() and not line.strip().startswith(b"elif")


@cache
def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def mutated(source: bytes, place: tuple[int, int, int, int], new: str) -> bytes:
    """Return a source in which `new` stands at a place (lines from 1, columns in bytes)."""
    lines = source.splitlines(keepends=True)
    first, start, last, end = place
    head, tail = lines[first - 1][:start], lines[last - 1][end:]
    return b"".join([*lines[: first - 1], head, new.encode(), tail, *lines[last:]])


def _probed(source: bytes, probes: Iterable[tuple[int, int]]) -> bytes:
    """Return a source with a probe before each line of (line, number)."""
    lines = source.splitlines(keepends=True)
    for line, number in sorted(probes, reverse=True):
        text = lines[line - 1]
        indent = text[: len(text) - len(text.lstrip())]
        loaded = '__import__("sys").modules.get("mutants_probe")'
        lines.insert(line - 1, indent + f"(lambda p: p and p.hit({number}))({loaded})\n".encode())
    return b"".join(lines)


@contextmanager
def _changed(sources: dict[Path, bytes]) -> Iterator[None]:
    """Have other sources in files, and put back what was there."""
    saved = {path: path.read_bytes() for path in sources}
    try:
        for path, source in sources.items():
            _write(path, source)
        yield
    finally:
        for path, source in saved.items():
            _write(path, source)


def _write(path: Path, source: bytes) -> None:
    """Write a file, of which no bytecode is left: two writes may have one size and one second."""
    path.write_bytes(source)
    for compiled in sorted(path.parent.glob(f"__pycache__/{path.stem}.*.pyc")):
        compiled.unlink()


def _ran(tree: Path, arguments: Sequence[str], limit_s: float, **extra: str) -> int | None:
    """Run pytest in a tree; return its exit status, or None when the limit was passed."""
    command = [str(tree / ".venv/bin/python"), "-m", "pytest", *PYTEST, *arguments]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "SHUNTER_SLICE": "0"} | extra
    with subprocess.Popen(
        command, cwd=tree, env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _probe(tree: Path, which: str, mutants: Sequence[Mutant], folder: Path) -> Path:
    """Return a file that tells which tests execute which statement."""
    found = folder / f"{which}.tsv"
    if found.exists() and "end\t" in found.read_text():
        return found
    found.unlink(missing_ok=True)
    (folder / "mutants_probe.py").write_text(PROBE)
    (folder / "sitecustomize.py").write_text("import mutants_probe\n")
    probes: dict[Path, list[tuple[int, int]]] = {}
    for mutant in mutants:
        file, line = mutant.before if which.startswith("before") else mutant.after
        probes.setdefault(tree / file, []).append((line, mutant.number))
    with _changed({path: _probed(path.read_bytes(), at) for path, at in probes.items()}):
        tests = [folder_ for folder_ in TESTS if (tree / folder_).exists()]
        extra = {"MUTANTS_FOUND": str(found), "PYTHONPATH": str(folder)}
        # sitecustomize imported it, which pytest warns of; warnings are errors here.
        quiet = ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
        _ran(tree, [*quiet, "-p", "mutants_probe", *tests], 3600.0, **extra)
    if not (found.exists() and "end\t" in found.read_text()):
        raise SystemExit(f"the tests of {tree} do not run to their end: see what pytest says there")
    return found


def _tests(found: Path) -> tuple[dict[int, list[str]], dict[str, float]]:
    """Return the passing tests of each statement, cheapest first, and what each test takes."""
    took: dict[str, float] = {}
    hits: dict[int, set[str]] = {}
    for line in found.read_text().splitlines():
        kind, number, test = line.split("\t", 2)
        if kind == "hit":
            hits.setdefault(int(number), set()).add(test)
        elif kind == "passed":
            took[test] = float(number)
    for tests in hits.values():
        tests |= {test for test in took if test.partition("::")[0] in tests}
    ordered = {
        number: sorted(tests & took.keys(), key=lambda test: (took[test], test))
        for number, tests in hits.items()
    }
    return ordered, took


def _outcome(
    tree: Path, source: tuple[Path, bytes], tests: list[str], took: dict[str, float]
) -> str:
    """Return caught, timeout, survived, unexecuted or broken, of one mutant in one tree."""
    if not tests:
        return "unexecuted"
    with _changed(dict([source])):
        for part in _parts(tests, took):
            limit_s = LIMIT_S + 3 * sum(took[test] for test in part)
            status = _ran(tree, ["-x", *part], limit_s)
            if status is None:
                return "timeout"
            if status == FAILED:
                return "caught"
            if status:  # nothing was run, for the mutant or for another reason
                break
        else:
            return "survived"
    return "broken" if _ran(tree, ["-x", *part], limit_s) else "caught"


def _parts(tests: list[str], took: dict[str, float]) -> Iterator[list[str]]:
    """Yield first what takes little, then all the others: most mutants do not outlive the first."""
    first: list[str] = []
    for test in tests[:50]:
        if first and sum(took[each] for each in first) + took[test] > FIRST_S:
            break
        first.append(test)
    yield first
    if tests[len(first) :]:
        yield tests[len(first) :]


def main(arguments: Sequence[str]) -> int:
    """Run the mutants; return 1 if one that was caught before survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--only", type=lambda text: set(map(int, text.split(","))))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/mutants"))
    parser.add_argument("--list", action="store_true", help="only tell what would be done")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))
    options.folder.mkdir(parents=True, exist_ok=True)
    mutants = drawn(options.before, options.after, options.seed, options.count)
    if options.list:
        for mutant in mutants:
            print(
                mutant.number, *mutant.after, mutant.name, mutant.kind, mutant.old, "->", mutant.new
            )
        return 0
    trees = {"after": options.after.resolve(), "before": options.before.resolve()}
    known = {
        which: _tests(
            _probe(tree, f"{which}-{options.seed}-{options.count}", mutants, options.folder)
        )
        for which, tree in trees.items()
    }
    lost = 0
    for mutant in mutants:
        if options.only and mutant.number not in options.only:
            continue
        told: dict[str, object] = {"number": mutant.number, "name": mutant.name}
        told |= {"kind": mutant.kind, "old": mutant.old, "new": mutant.new}
        for which, tree in trees.items():
            file, line = mutant.before if which == "before" else mutant.after
            place = mutant.places[which == "after"]
            source = mutated((tree / file).read_bytes(), place, mutant.new)
            by_statement, took = known[which]
            tests = by_statement.get(mutant.number, [])
            begun_s = time.monotonic()
            outcome = _outcome(tree, (tree / file, source), tests, took)
            took_s = round(time.monotonic() - begun_s, 1)
            told[which] = outcome
            told[f"{which}_at"] = f"{file}:{line}"
            told[f"{which}_tests"], told[f"{which}_s"] = len(tests), took_s
        with (options.folder / "results.jsonl").open("a") as results:
            results.write(json.dumps(told) + "\n")
        caught = {"caught", "timeout"}
        lost += told["before"] in caught and told["after"] not in caught
        print(mutant.number, told["before"], told["after"], mutant.name, flush=True)
    print(f"{lost} caught before and lost after")
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
