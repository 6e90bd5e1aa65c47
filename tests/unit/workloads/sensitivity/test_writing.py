"""A table that is written and read again: the same speeds, at the same points."""

import json

import pytest

from shunter.core.speeds import Sensitivity, SensitivityTable
from shunter.errors import ConfigError
from shunter.events import Resources
from shunter.workloads import builtin_sensitivity, load_sensitivity, table_document

SHARE = Resources(0, 3000, 62_500)
SMALL = Sensitivity((1000, 3000), (20_830, 62_500), ((0.1, 0.4), (0.1, 1.0)))
LARGE = Sensitivity((1500, 3000, 6000), (62_500, 125_000), ((0.5, 0.5), (1, 1), (1.5, 2)))


def read_back(table: SensitivityTable) -> SensitivityTable:
    text = json.dumps(table_document(table, ["a note"]))
    return load_sensitivity("table.json", lambda _: text).table


def test_one_matrix_comes_back_as_it_was() -> None:
    table = SensitivityTable({"m": {1: SMALL}}, SHARE)
    assert read_back(table) == table


def test_built_in_table_comes_back_with_the_same_speeds() -> None:
    table = builtin_sensitivity().table
    again = read_back(table)
    assert again.proportional == table.proportional
    for model, sizes in table.models.items():
        for gpus, matrix in sizes.items():
            for cpus_milli in (500, 1000, 2500, 3000, 7777, 24_000, 50_000):
                for memory_mb in (9000, 20_830, 100_000, 250_000, 900_000):
                    assert again.models[model][gpus].speed(cpus_milli, memory_mb) == pytest.approx(
                        matrix.speed(cpus_milli, memory_mb)
                    )


def test_matrices_of_a_file_share_their_points_and_keep_their_speeds() -> None:
    again = read_back(SensitivityTable({"a": {1: SMALL}, "b": {1: SMALL, 4: LARGE}}, SHARE))
    small, large = again.models["b"][1], again.models["b"][4]
    assert small.cpus_milli == large.cpus_milli == (1000, 1500, 3000, 6000)
    assert small.memory_mb == large.memory_mb == (20_830, 62_500, 125_000)
    assert small.speed(1500, 62_500) == SMALL.speed(1500, 62_500)
    assert large.speed(1000, 20_830) == pytest.approx(LARGE.speed(1000, 20_830))
    assert large.speed(6000, 125_000) == 2


def test_fewest_gpus_count_for_jobs_with_fewer_as_well() -> None:
    again = read_back(SensitivityTable({"m": {4: LARGE, 8: SMALL}}, SHARE))
    assert list(again.models["m"]) == [1, 8]
    assert again.models["m"][1].speed(6000, 125_000) == 2


@pytest.mark.parametrize("models", [{}, {"m": {1: SMALL}, "n": {}}])
def test_table_without_matrices_is_refused(models: dict[str, dict[int, Sensitivity]]) -> None:
    with pytest.raises(ConfigError, match="expected models, each with a matrix"):
        table_document(SensitivityTable(models, SHARE))
