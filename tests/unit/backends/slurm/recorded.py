"""Recorded and composed answers of Slurm; the first line of each says where it is from."""

from pathlib import Path

FOLDER = Path(__file__).parents[3] / "data" / "slurm"
WORD = "~recorded~"


def recorded(version: str, name: str) -> str:
    """Return what Slurm has said, without the line that says where it is from."""
    source, _, text = (FOLDER / version / name).read_text().partition("\n")
    assert source.startswith("# "), f"{version}/{name} does not say where it is from"
    return text
