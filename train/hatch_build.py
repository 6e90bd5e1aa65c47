"""Takes the code from ../shunter/train, or, in an unpacked sdist, from beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "shunter/train"


class SharedSources(BuildHookInterface):  # type: ignore[type-arg]  # its builders are not typed
    """Adds the package to wheel and sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the folder of the sources; the repository's where this is its `train/`."""
        if version == "editable":
            raise ValueError("editable: install the whole repository, `pip install -e ..`")
        here = Path(self.root)
        found = [folder / PACKAGE for folder in (here, here.parent) if (folder / PACKAGE).is_dir()]
        if not found:
            raise FileNotFoundError(f"{PACKAGE}: neither in {here} nor in {here.parent}")
        build_data["force_include"][str(found[0])] = PACKAGE
