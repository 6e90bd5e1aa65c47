"""What would break determinism or hide a fault (style guide, sections 6, 7 and 11)."""

import ast
from collections.abc import Iterator

from tests.tidy.source import Finding, Source, qualified_name

__all__ = [
    "async_in_core",
    "blind_except",
    "clock_and_chance",
    "newer_methods",
    "outside_world",
    "set_iteration",
    "unsorted_listing",
]

PURE_FOLDERS = (
    "shunter/core",
    "shunter/policies",
    "peers/shunter_peers/gavel",
    "peers/shunter_peers/queueing",
)

# What runs in a Python of a server or of a job, which may be 3.8; ruff looks at syntax alone.
OLD_PYTHON_FOLDERS = ("shunter/backends/node", "shunter/train", "train")
NEWER_METHODS = frozenset(
    {"bit_count", "hardlink_to", "is_relative_to", "lcm", "pairwise"}
    | {"removeprefix", "removesuffix", "to_thread", "with_stem"}
)

# The round loop waits, and the ports name what is awaited; nothing else in core is async.
ASYNC_FILES = frozenset({"shunter/core/round_loop.py", "shunter/core/interfaces.py"})

OUTSIDE_WORLD = frozenset(
    [
        "aiosqlite",
        "alembic",
        "anyio",
        "asyncio",
        "asyncssh",
        "ClusterShell",
        "concurrent",
        "cryptography",
        "ctypes",
        "fcntl",
        "glob",
        "http",
        "io",
        "logging",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "pwd",
        "pynvml",
        "queue",
        "random",
        "resource",
        "rich",
        "sched",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "sqlalchemy",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "trio",
        "typer",
        "urllib",
        "uuid",
    ]
)

CLOCK_AND_CHANCE = frozenset(
    [
        "date.today",
        "datetime.now",
        "datetime.today",
        "datetime.utcnow",
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "hash",
        "id",
        "input",
        "np.random",
        "numpy.random",
        "open",
        "print",
    ]
)

# Where somebody else's code is called, a policy's or a function's; nobody else may catch all.
BLIND_EXCEPT_FILES = frozenset(
    {
        "shunter/config/policy_plugins.py",
        "shunter/plugins.py",
        "shunter/client/called.py",
        "shunter/core/planning/fault_barrier.py",
    }
)

LISTINGS = frozenset({"glob", "iglob", "iterdir", "listdir", "rglob", "scandir"})
BLIND = frozenset({"BaseException", "Exception"})
SET_METHODS = frozenset({"difference", "intersection", "symmetric_difference", "union"})
ORDER_TAKERS = frozenset({"enumerate", "iter", "list", "map", "next", "reversed", "tuple", "zip"})


def outside_world(source: Source) -> Iterator[Finding]:
    """Core and policies import nothing that reaches outside; two files may use anyio."""
    if not source.is_under(*PURE_FOLDERS):
        return
    allowed = {"anyio"} if source.path in ASYNC_FILES else set()
    for node in source.nodes(ast.Import, ast.ImportFrom):
        for module in _imported(node):
            root = module.partition(".")[0]
            if root in OUTSIDE_WORLD and root not in allowed:
                yield source.finding(_line(node), f"imports {root}: no outside world here")


def clock_and_chance(source: Source) -> Iterator[Finding]:
    """Core and policies read no clock, no chance, no address and no file."""
    if not source.is_under(*PURE_FOLDERS):
        return
    for call in _calls(source):
        if _is_banned_call(qualified_name(call.func)):
            yield source.finding(call.lineno, f"calls {qualified_name(call.func)}")


def newer_methods(source: Source) -> Iterator[Finding]:
    """What runs in a Python of others calls nothing that 3.8 lacks."""
    if not source.is_under(*OLD_PYTHON_FOLDERS):
        return
    for node in source.nodes(ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr in NEWER_METHODS:
            yield source.finding(node.lineno, f"Python 3.8 has no {node.attr}")


def async_in_core(source: Source) -> Iterator[Finding]:
    """`async` and `await` stand in the round loop and the ports only."""
    if not source.is_under(*PURE_FOLDERS) or source.path in ASYNC_FILES:
        return
    for node in source.nodes(ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith):
        yield source.finding(_line(node), "async code outside the round loop and the ports")


def set_iteration(source: Source) -> Iterator[Finding]:
    """No set is iterated: its order is an accident. Wrap it in `sorted`."""
    for node in source.nodes(ast.For, ast.AsyncFor, ast.comprehension, ast.Starred, ast.Call):
        for iterated in _iterated(node):
            if _is_set(iterated):
                yield source.finding(iterated.lineno, "iterates a set: wrap it in sorted()")


def unsorted_listing(source: Source) -> Iterator[Finding]:
    """A directory listing stands inside `sorted`: its order is the file system's.

    One that is closed by `with` is named there, and the name stands inside `sorted`.
    """
    sorts = [call for call in _calls(source) if qualified_name(call.func) == "sorted"]
    wrapped = {id(argument) for call in sorts for argument in _unwrapped(call.args)}
    names = {name.id for call in sorts for name in ast.walk(call) if isinstance(name, ast.Name)}
    for block in source.nodes(ast.With):
        for item in block.items if isinstance(block, ast.With) else ():
            if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id in names:
                wrapped.add(id(item.context_expr))
    for call in _calls(source):
        if _called_name(call) in LISTINGS and id(call) not in wrapped:
            yield source.finding(call.lineno, f"{_called_name(call)}() outside sorted()")


def blind_except(source: Source) -> Iterator[Finding]:
    """`except Exception` and a bare `except` stand only where a policy is asked."""
    if not source.is_under("shunter", "papers", "peers") or source.path in BLIND_EXCEPT_FILES:
        return
    for node in source.nodes(ast.ExceptHandler):
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node.type):
            yield source.finding(node.lineno, "catches everything: name the errors")


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module or ""]
    return []


def _is_banned_call(name: str) -> bool:
    return name in CLOCK_AND_CHANCE or name.startswith(("np.random.", "numpy.random."))


def _iterated(node: ast.AST) -> list[ast.expr]:
    """Return what a node walks through in an order that shows."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Call):
        is_join = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
        if is_join or qualified_name(node.func) in ORDER_TAKERS:
            return list(node.args)
    return []


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub):
        return _is_set(node.left) or _is_set(node.right)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS:
        return _is_set(node.func.value)
    return qualified_name(node.func) in {"frozenset", "set"}


def _calls(source: Source) -> Iterator[ast.Call]:
    for node in source.nodes(ast.Call):
        assert isinstance(node, ast.Call)
        yield node


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else qualified_name(call.func)


def _unwrapped(arguments: list[ast.expr]) -> Iterator[ast.expr]:
    """Yield arguments, and what a comprehension or a bound among them walks through."""
    for argument in arguments:
        yield argument
        if isinstance(argument, ast.GeneratorExp | ast.ListComp | ast.SetComp):
            yield from _unwrapped([generator.iter for generator in argument.generators])
        elif isinstance(argument, ast.Call) and qualified_name(argument.func) == "islice":
            yield from argument.args


def _catches_everything(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    every = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(qualified_name(name).removeprefix("builtins.") in BLIND for name in every)
