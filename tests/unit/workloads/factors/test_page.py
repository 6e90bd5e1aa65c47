"""The reference of the built-in factors is what the table says, and what a GPU was seen to do."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from docs.factors_page import PAGE, page
from shunter.workloads import load_factors

MEASURED: dict[str, Any] = {
    "date": "2026-12-01",
    "python": "3.12.3",
    "gpu": "NVIDIA H200",
    "driver": "580.00",
    "torch": "2.11.0",
    "cuda.bindings": "13.0.1",
    "rehearsal": False,
    "parts": {
        "suspend": {
            "in words": "1.3 billion parameters",
            "parameters": 1_313_722_368,
            "saved_gb": 16.0,
            "suspend_s": 20.0,
            "load_s": 10.0,
            "resume_s": 18.0,
        },
        "slicing": {"in words": "it takes turns", "stop_s": 0.05, "continue_s": 0.01},
        "pairs": {
            "in words": "both together do 1.2",
            "alone_batches_per_s": {"conv": 30.0, "gpt-small": 50.0},
            "without MPS": {
                "conv conv": [0.6, 0.62],
                "conv gpt-small": [0.8, 1.02],
                "gpt-small gpt-small": [0.7, 0.7],
            },
        },
        "checkpoints": {"not measured": "cuda-bindings is not installed"},
    },
}


def with_results(folder: Path, **changed: object) -> str:
    path = folder / "results.json"
    path.write_text(json.dumps(MEASURED | changed))
    return page(path)


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.factors_page"


def test_page_without_a_measurement_says_that_all_is_of_papers(tmp_path: Path) -> None:
    assert "all figures of this page are papers'" in page(tmp_path / "results.json")


def test_measured_figures_say_where_they_are_from_and_what_is_still_of_papers(
    tmp_path: Path,
) -> None:
    said = with_results(tmp_path)
    assert "NVIDIA H200, driver 580.00, PyTorch 2.11.0" in said
    assert "Still papers' are the factors above" in said
    assert "| checkpoints | not measured: cuda-bindings is not installed |" in said


def test_measured_figures_are_a_config_that_is_read(tmp_path: Path) -> None:
    toml = with_results(tmp_path).rpartition("```toml\n")[2].partition("```")[0]
    costs, _, models = toml.partition("\n\n")
    found = tomllib.loads(costs)["simulation"]["costs"]
    assert found == {"resume": 8.0, "checkpoint_mb": 16_000, "bandwidth_mb_s": 800, "turn": 0.06}
    table = load_factors("factors.toml", lambda _: models).table
    assert set(table.models) == {"conv", "gpt-small"}


def test_figures_of_a_rehearsal_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is of a rehearsal"):
        with_results(tmp_path, rehearsal=True)
