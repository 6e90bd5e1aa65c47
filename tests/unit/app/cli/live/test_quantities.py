"""Quantities as people write and read them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.cli import (
    array_of,
    dependency_of,
    durations_apart,
    memory_mb,
    point_of,
    seconds,
    since_s,
)
from shunter.core.speeds import unfit_contract
from shunter.errors import UsageError
from shunter.events import JobSpec, Level

PLACEMENT = Path(__file__).parents[5] / "docs" / "reference" / "placement.md"


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        *((seconds, "90s", 90), (seconds, "1h30m", 5400), (seconds, "1.5h", 5400)),
        *((seconds, "2d", 172_800), (seconds, "1w", 604_800), (seconds, "250ms", 0.25)),
        *((seconds, "12:00:00", 43_200), (seconds, "1-12:30:15", 131_415)),
        *((memory_mb, "512M", 512), (memory_mb, "16G", 16_000), (memory_mb, "16g", 16_000)),
        *((memory_mb, "16GB", 16_000), (memory_mb, "16Gi", 16_384)),
        *((memory_mb, "1.5T", 1_500_000), (memory_mb, "0.5M", 1)),
        *((array_of, "0-99", (0, 99, 1, None)), (array_of, "0-99%8", (0, 99, 1, 8))),
        *((array_of, "1-9:2%1", (1, 9, 2, 1)), (array_of, "7", (7, 7, 1, None))),
        *((dependency_of, "j12", ("j12", "ok")), (dependency_of, "j12:ok", ("j12", "ok"))),
        (dependency_of, "j12:any", ("j12", "any")),
        *((point_of, "rack:0.8", ("rack", 0.8)), (point_of, "2+2:0.72", ([2, 2], 0.72))),
        (point_of, "4:1", ([4], 1.0)),
        *((since_s, "10m", 600), (since_s, "2026-11-19T18:00:00+00:00", None)),  # the daemon reads
    ],
)
def test_quantity_is_read(read: Callable[[str], object], text: str, expected: object) -> None:
    assert read(text) == expected


DURATIONS = ("", "60", "1h 30", "-5m", "5 minutes", "1:00", "00:70:00", "h")
POINTS = ("rack", "rack:", ":0.5", "rack:fast", "rack:1.2", "2+2:0", "2x2:1")
OTHERS: dict[Callable[[str], object], tuple[str, ...]] = {
    memory_mb: ("16", "-1G", "1E"),
    array_of: ("5-1", "0-9%0", "0-9:0", "a-b"),
    dependency_of: ("j12:sometimes", "../j12", ""),
}


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        *((seconds, text, "90s") for text in DURATIONS),
        *((point_of, text, "2+2") for text in POINTS),
        *((read, text, repr(text)) for read, texts in OTHERS.items() for text in texts),
    ],
)
def test_what_cannot_be_read_is_shown_or_how_one_is_written(
    read: Callable[[str], object], text: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert said in str(caught.value)


def test_contract_that_the_reference_names_is_taken() -> None:
    """Goal: who copies the example is not told that it is none."""
    text = " ".join(PLACEMENT.read_text().split())
    (example,) = re.findall(r"`shunter submit ([^`]*--min-speed [^`]*)`", text)
    (gpus,) = re.findall(r"--gpus (\d+)", example)
    points = [point_of(each) for each in re.findall(r"--tolerance (\S+)", example)]
    levels = [(Level(place), speed) for place, speed in points if isinstance(place, str)]
    shapes = [(tuple(place), speed) for place, speed in points if not isinstance(place, str)]
    spec = JobSpec(
        gpus=int(gpus), tolerance=tuple(levels), shape_tolerance=tuple(shapes), min_speed=0.7
    )

    assert len(points) == 3
    assert unfit_contract(spec) is None


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (362_880, 359_640, ("100.8 h", "99.9 h")),
        (362_880, 362_820, ("6048.0 m", "6047.0 m")),
        (362_880, 362_879, ("362880.0 s", "362879.0 s")),
        (3.01, 3.02, ("3.010000 s", "3.020000 s")),
        (362_880, 200, ("4.2 d", "3.3 m")),
        (40, 40, ("40 s", "40 s")),
    ],
)
def test_durations_that_differ_are_told_apart(
    one: float, other: float, told: tuple[str, str]
) -> None:
    assert durations_apart(one, other) == told
