"""Scripts with `#SHUNTER` lines: options first, as on the command line, which comes after them.

    #!/bin/bash
    #SHUNTER --gpus 4 --time 12h
    #SHUNTER --name "resnet sweep"
    python train.py

Only lines before the first command count, as in other schedulers. A script of a shell is submitted
as it is now: what is changed in the file later changes no job. A file of Python without a first
line such as #!/usr/bin/env python3 is run by the submitter's Python. A job without a name has that
of the script it runs, however that is begun.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from shunter.errors import NotFoundError, UsageError

MARK = "#SHUNTER"
STRANGE_MARKS = frozenset({"#SBATCH", "#PBS", "#BSUB"})
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
NAME_MOST = 40
SUFFIXES = frozenset((".py", ".sh", ".bash", ".zsh", ".jl", ".r", ".pl", ".rb", ".lua", ".js"))
PYTHON_SUFFIXES = frozenset((".py", ".pyw"))
INTERPRETERS = {
    ".jl": "julia",
    ".js": "node",
    ".lua": "lua",
    ".pl": "perl",
    ".r": "Rscript",
    ".rb": "ruby",
}
"""What runs files that are none of a shell, by their suffix, where no first line says it."""

BYTE_ORDER_MARK = "\ufeff"
ELF = b"\x7fELF"
SCRIPT_BYTES_MOST = 131_000
"""What Linux takes for one argument, which the text of a script becomes."""


@dataclass(frozen=True)
class Script:
    """A script: its options by the number of their line, its interpreter, its text.

    `strange` is the mark of another scheduler's lines in it, which count for nothing; often none.
    `is_run_by_our_choice`: it is a file of Python whose first line names no interpreter.
    """

    path: Path
    lines: tuple[tuple[int, tuple[str, ...]], ...]
    interpreter: tuple[str, ...]
    text: str
    strange: str = ""
    is_run_by_our_choice: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """All options, in order."""
        return tuple(word for _, words in self.lines for word in words)

    def command(self, arguments: list[str]) -> list[str]:
        """Return what runs it."""
        shell = Path(self.interpreter[0]).name
        if shell == "env" and len(self.interpreter) > 1:
            shell = self.interpreter[1]
        path = str(self.path.resolve())
        if shell not in SHELLS:
            return [*self.interpreter, path, *arguments]
        if len(self.text.encode()) > SCRIPT_BYTES_MOST:
            raise UsageError(
                f"{self.path}: longer than the {SCRIPT_BYTES_MOST:,} bytes a job's command may "
                "have: submit a short script that runs it"
            )
        return [*self.interpreter, "-c", self.text, path, *arguments]


def read_script(path: Path) -> Script:
    """Read a script.

    Raises:
        UsageError: it is no text, has line ends or a first mark that would be taken for a part of
            its lines, is not for a shell and names no interpreter, or one of its lines cannot be
            split into words.
    """
    from shunter.workloads.loading import read_file

    try:
        text = read_file(path, 64 << 20).decode("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: it cannot be read as a script: {error}") from error
    _refuse_lone_cr(path, text)
    is_marked, text = text.startswith(BYTE_ORDER_MARK), text.removeprefix(BYTE_ORDER_MARK)
    interpreter = _first_line(text)
    is_run_by_our_choice = not interpreter and path.suffix.lower() in PYTHON_SUFFIXES
    if is_run_by_our_choice:
        interpreter = (_own_python(),)
    elif is_marked:
        raise UsageError(
            f"{path}:1: the file begins with a byte order mark (BOM), which shells take for a part "
            f"of its first line: sed -i '1s/^\\xef\\xbb\\xbf//' {shlex.quote(str(path))}"
        )
    else:
        _refuse_dos(path, text)
    if not interpreter:
        _refuse_unnamed(path)
    lines: list[tuple[int, tuple[str, ...]]] = []
    strange = ""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            break
        mark, _, said = stripped.partition(" ")
        if mark != MARK:
            strange = strange or (mark if mark in STRANGE_MARKS else "")
            continue
        try:
            found = shlex.split(said, comments=True)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {error}") from error
        if "--" in found:
            raise UsageError(f"{path}:{number}: expected options only; the script is the command")
        lines.append((number, tuple(found)))
    words = interpreter or ("/bin/sh",)
    return Script(path, tuple(lines), words, text, strange, is_run_by_our_choice)


def is_program(path: Path) -> bool:
    """Say whether a file is a compiled program, as the kernel starts it."""
    try:
        with path.open("rb") as file:
            return file.read(len(ELF)) == ELF
    except OSError:
        return False


def _refuse_unnamed(path: Path) -> None:
    """Raise a UsageError for a file that says no interpreter and is none of a shell."""
    suffix, shown = path.suffix.lower(), shlex.quote(str(path))
    if suffix == ".ipynb":
        raise UsageError(
            f"{path}: a notebook is no script: jupyter nbconvert --to script {shown}, and submit "
            "what that writes"
        )
    if program := INTERPRETERS.get(suffix):
        raise UsageError(
            f"{path}:1: no interpreter is named, and a shell cannot run a {path.suffix} file: "
            f"expected a first line #!/usr/bin/env {program}, or shunter submit -- {program} "
            f"{shown}"
        )


def _refuse_lone_cr(path: Path, text: str) -> None:
    """Raise a UsageError if all lines end with CR: it would be one line."""
    if "\r" in text.rstrip("\r\n") and "\n" not in text:
        raise UsageError(
            f"{path}:1: the lines end with CR alone, as on old Macs, so it is one line to whatever "
            f"runs it: sed -i 's/\\r/\\n/g' {shlex.quote(str(path))}"
        )


def _refuse_dos(path: Path, text: str) -> None:
    """Raise a UsageError that names the first line which ends as in DOS."""
    before, mark, _ = text.partition("\r\n")
    if mark:
        raise UsageError(
            f"{path}:{before.count(chr(10)) + 1}: the line ends with CR LF, as in DOS, and shells "
            f"take the CR for a part of it: sed -i 's/\\r$//' {shlex.quote(str(path))}"
        )


def command_of(words: list[str]) -> tuple[list[str], Script | None]:
    """Return the command that words without a `--` stand for, and its script.

    Raises:
        UsageError: there is none.
        NotFoundError: the first is neither a script nor a program.
    """
    import shutil

    if not words:
        raise UsageError("nothing to run: shunter submit [OPTIONS] -- CMD…, or a script")
    path = Path(words[0])
    if path.is_file() and is_program(path):
        return [os.path.abspath(path), *words[1:]], None  # noqa: PTH100 a venv's python is a link
    if path.is_file():
        script = read_script(path)
        return script.command(words[1:]), script
    if shutil.which(words[0]) is None:
        raise NotFoundError(f"{words[0]} is neither a script here nor a program")
    return words, None


def _first_line(text: str) -> tuple[str, ...]:
    """Return the words of a script's first line; none: it names no interpreter."""
    first = text.partition("\n")[0]
    return tuple(first.removeprefix("#!").split()) if first.startswith("#!") else ()


def _own_python() -> str:
    """Return the Python of the environment that the submitter has activated."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(os.environ.get(variable) or os.devnull, "bin", "python")
        if python.is_file():
            return str(python)
    return "python3"


def name_of(command: Sequence[str]) -> str:
    """Return the name of the script or module that a command runs.

    `torchrun --nproc-per-node 2 train.py --lr 1` is `train.py`, `python -m shop.train` is
    `shop.train`; a command without either is called by its program.
    """
    words = list(command)
    for place, word in enumerate(words):
        if place and words[place - 1] == "-m" and not word.startswith("-"):
            found = word
        elif PurePath(word).suffix.lower() in SUFFIXES and not word.startswith("-"):
            found = PurePath(word).name
        else:
            continue
        if "\n" not in found:
            return found[:NAME_MOST]
    return PurePath(words[0]).name[:NAME_MOST]
