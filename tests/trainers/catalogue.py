"""The libraries that `make trainers` tries, as examples/trainers/trainers.toml names them."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

__all__ = ["FOLDER", "RESULTS", "Trainer", "trainers"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "trainers"
RESULTS = ROOT / "docs" / "reference" / "trainers.json"


@dataclass(frozen=True)
class Trainer:
    """An entry: a library in its pinned version, and a script that trains with it."""

    name: str
    library: str
    script: str
    packages: Sequence[str]
    leaves: str
    does: str
    limits: str
    words: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    expects: str = "exact"

    @property
    def path(self) -> Path:
        """The script."""
        return FOLDER / self.script

    @property
    def environment(self) -> str:
        """The name of the folder it is installed in: one for equal pins."""
        return blake2b(" ".join(self.packages).encode(), digest_size=6).hexdigest()

    def digest(self) -> str:
        """Return what changes with the script, its words and its pins: results are of these."""
        content = [self.path.read_text(encoding="utf-8"), *self.words, *self.packages]
        return blake2b("\0".join(content).encode(), digest_size=8).hexdigest()


def trainers(path: Path = FOLDER / "trainers.toml") -> list[Trainer]:
    """Return all entries.

    Raises:
        ValueError: an entry lacks a key, has an unknown one, or names a script that is not there.
    """
    found = []
    for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
        try:
            trainer = Trainer(name=name, **entry)
        except TypeError as error:
            raise ValueError(f"{path}: [{name}]: {error}") from None
        if not trainer.path.is_file():
            raise ValueError(f"{path}: [{name}]: there is no script {trainer.script}")
        if trainer.expects not in ("exact", "different"):
            raise ValueError(f'{path}: [{name}]: expects = "exact" or "different"')
        unpinned = [each for each in trainer.packages if "==" not in each]
        if unpinned or not trainer.packages:
            raise ValueError(f"{path}: [{name}]: packages: each needs a version, NAME==VERSION")
        found.append(trainer)
    return found
