"""The examples, each with the commands in its head and the output they must give.

A line `# $ command` at the head of a TOML file (or `$ command` in the docstring of a script) is
run from the root; name.out beside name.toml holds what they print, one after the other.

    python -m tests.examples.commands      writes every name.out again
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"
ELSEWHERE = ("live", "trainers")
COMMAND = re.compile(r"(?:# )?\$ (.+)")
DIGEST = re.compile(r"\b[0-9a-f]{12}\b")


@dataclass(frozen=True)
class Example:
    """One file of examples/, and the file with its expected output."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(FOLDER))

    @property
    def expected(self) -> Path:
        return self.path.with_suffix(".out")

    def commands(self) -> list[str]:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [found[1] for line in lines if (found := COMMAND.fullmatch(line.strip()))]

    def run(self) -> str:
        return "".join(_printed(command) for command in self.commands())


def examples() -> list[Example]:
    """Return every example, in order of folder and name.

    Those that run jobs are live tests, and those that train `make trainers` runs.
    """
    found = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in (".py", ".toml")]
    return [Example(path) for path in found if path.relative_to(FOLDER).parts[0] not in ELSEWHERE]


def without_digests(text: str) -> str:
    """Return the text without digests: they change with the version, and golden logs hold them."""
    return DIGEST.sub("digest", text)


def _printed(command: str) -> str:
    """Return the command as typed, and what it prints to stdout."""
    program, *arguments = command.split()
    module = ["-m", "shunter"] if program == "shunter" else []
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHUNTER_")}
    # Whose turn it is may hang on the last bits of a solution, and OpenBLAS has other kernels on
    # other CPUs: these are what every x86-64 of the last ten years has.
    environment["OPENBLAS_CORETYPE"] = "Haswell"
    done = subprocess.run(
        [sys.executable, *module, *arguments],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stderr}"
    return f"$ {command}\n{done.stdout}\n"


if __name__ == "__main__":
    for example in examples():
        example.expected.write_text(example.run(), encoding="utf-8")
