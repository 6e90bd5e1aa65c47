import re
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.cli import array_of, dependency_of, memory_mb, point_of, seconds, since_s
from shunter.core.speeds import unfit_contract
from shunter.errors import UsageError
from shunter.events import JobSpec, Level

PLACEMENT = Path(__file__).parents[5] / "docs" / "reference" / "placement.md"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("250ms", 0.25),
        ("12:00:00", 43_200),
        ("1-12:30:15", 131_415),
    ],
)
def test_duration_is_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "60", "1h 30", "-5m", "5 minutes", "1:00", "00:70:00", "h"])
def test_what_is_no_duration_says_how_one_is_written(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        seconds(text)
    assert "90s" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("512M", 512),
        ("16G", 16_000),
        ("16g", 16_000),
        ("16GB", 16_000),
        ("16Gi", 16_384),
        ("1.5T", 1_500_000),
        ("0.5M", 1),
    ],
)
def test_size_is_read_as_configs_count(text: str, expected: int) -> None:
    assert memory_mb(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-99", (0, 99, 1, None)),
        ("0-99%8", (0, 99, 1, 8)),
        ("1-9:2%1", (1, 9, 2, 1)),
        ("7", (7, 7, 1, None)),
    ],
)
def test_array_is_read(text: str, expected: tuple[int, int, int, int | None]) -> None:
    assert array_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("j12", ("j12", "ok")), ("j12:ok", ("j12", "ok")), ("j12:any", ("j12", "any"))],
)
def test_dependency_is_read(text: str, expected: tuple[str, str]) -> None:
    assert dependency_of(text) == expected


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (memory_mb, "16"),
        (memory_mb, "-1G"),
        (memory_mb, "1E"),
        (array_of, "5-1"),
        (array_of, "0-9%0"),
        (array_of, "0-9:0"),
        (array_of, "a-b"),
        (dependency_of, "j12:sometimes"),
        (dependency_of, "../j12"),
        (dependency_of, ""),
    ],
)
def test_what_cannot_be_read_is_shown(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert repr(text) in str(caught.value)


def test_since_is_a_duration_or_left_to_the_daemon() -> None:
    assert since_s("10m") == 600
    assert since_s("2026-11-19T18:00:00+00:00") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("rack:0.8", ("rack", 0.8)), ("2+2:0.72", ([2, 2], 0.72)), ("4:1", ([4], 1.0))],
)
def test_point_of_a_curve_is_of_a_level_or_a_split(
    text: str, expected: tuple[str | list[int], float]
) -> None:
    assert point_of(text) == expected


@pytest.mark.parametrize(
    "text", ["rack", "rack:", ":0.5", "rack:fast", "rack:1.2", "2+2:0", "2x2:1"]
)
def test_what_is_no_point_of_a_curve_says_how_one_is_written(text: str) -> None:
    with pytest.raises(UsageError, match=r"2\+2"):
        point_of(text)


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
