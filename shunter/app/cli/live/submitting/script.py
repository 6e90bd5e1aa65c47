"""Scripts with `#SHUNTER` lines: options first, as on the command line, which comes after them.

    #!/bin/bash
    #SHUNTER --gpus 4 --time 12h
    #SHUNTER --name "resnet sweep"
    python train.py

Only lines before the first command count, as in other schedulers. A script of a shell is submitted
as it is now: what is changed in the file later changes no job. A job without a name has that of the
script it runs, however that is begun.
"""

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
SCRIPT_BYTES_MOST = 131_000
"""What Linux takes for one argument, which the text of a script becomes."""


@dataclass(frozen=True)
class Script:
    """A script: its options by the number of their line, its interpreter, its text.

    `strange` is the mark of another scheduler's lines in it, which count for nothing; often none.
    """

    path: Path
    lines: tuple[tuple[int, tuple[str, ...]], ...]
    interpreter: tuple[str, ...]
    text: str
    strange: str = ""

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
        UsageError: it is no text, or one of its lines cannot be split into words.
    """
    from shunter.workloads.files import read_file

    try:
        text = read_file(path, 64 << 20).decode("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: it cannot be read as a script: {error}") from error
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
    return Script(path, tuple(lines), _interpreter(text), text, strange)


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
    if path.is_file():
        script = read_script(path)
        return script.command(words[1:]), script
    if shutil.which(words[0]) is None:
        raise NotFoundError(f"{words[0]} is neither a script here nor a program")
    return words, None


def _interpreter(text: str) -> tuple[str, ...]:
    """Return the words of a script's first line; without one it is for the shell."""
    first = text.partition("\n")[0]
    words = tuple(first.removeprefix("#!").split()) if first.startswith("#!") else ()
    return words or ("/bin/sh",)


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
