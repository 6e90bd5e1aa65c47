"""The MinIO model by hand: 100 GB, memory at 10 GB/s with 4 CPUs, disk at 512 MB/s."""

from collections.abc import Callable

import pytest

from shunter.errors import ConfigError
from shunter.workloads import MinioModel

MODEL = MinioModel(dataset_gb=100, memory_gb_s={1: 2, 4: 10}, disk_mb_s=512)


def test_dataset_is_in_memory_or_missing() -> None:
    assert (MODEL.cached_gb(30), MODEL.missing_gb(30)) == (30, 70)
    assert (MODEL.cached_gb(100), MODEL.missing_gb(100)) == (100, 0)


def test_all_of_an_odd_dataset_leaves_nothing_missing() -> None:
    sizes = [size / 7 for size in range(1, 200)]
    assert all(MinioModel(size, {1: 1}, 1).missing_gb(100) == 0 for size in sizes)


def test_fetch_reads_memory_and_then_disk() -> None:
    assert MODEL.cache_s(4, 50) == 5  # 50 GB at 10 GB/s
    assert MODEL.disk_s(50) == 100  # 50 x 1024 MB at 512 MB/s
    assert MODEL.fetch_s(4, 50) == 105
    assert MODEL.fetch_s(1, 50) == 125


@pytest.mark.parametrize(
    ("percent", "full_s", "epoch_s"),
    [(50, 60, 105), (50, 110, 110), (0, 60, 200), (100, 60, 60), (100, 5, 10)],
)
def test_epoch_takes_as_long_as_training_or_fetching(
    percent: float, full_s: float, epoch_s: float
) -> None:
    assert MODEL.epoch_s(4, percent, full_s) == epoch_s


@pytest.mark.parametrize(
    ("percent", "full_s", "storage_mb_s"),
    [
        (50, 60, 512),  # reading is what takes the time
        (50, 105, 512),  # as long as training
        (50, 133, 400),  # 50 x 1024 MB in 133 - 5 s
        (0, 400, 256),  # 100 x 1024 MB in 400 s
        (100, 60, 0),  # nothing comes from disk
        (100, 5, 0),
    ],
)
def test_storage_is_what_hides_the_disk_behind_training(
    percent: float, full_s: float, storage_mb_s: float
) -> None:
    assert MODEL.storage_mb_s(4, percent, full_s) == storage_mb_s


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: MinioModel(-1, {1: 1}, 1), "dataset_gb: expected a number above 0, not -1"),
        (lambda: MinioModel(1, {1: 1}, -5), "disk_mb_s: expected a number above 0, not -5"),
        (lambda: MinioModel(1, {2: -3}, 1), "memory_gb_s at 2 CPUs: expected a number above 0"),
        (lambda: MinioModel(float("nan"), {1: 1}, 1), "dataset_gb: .*not nan"),
        (lambda: MinioModel(1, {1: 1}, float("inf")), "disk_mb_s: .*not inf"),
        (lambda: MODEL.epoch_s(4, 50, 0), "epoch with 4 CPUs: expected a number above 0, not 0"),
        (lambda: MODEL.storage_mb_s(4, 50, -1), "epoch with 4 CPUs: .*not -1"),
        (lambda: MODEL.epoch_s(8, 50, 1), "nothing was measured with 8 CPUs, only with 1, 4"),
        (lambda: MODEL.cached_gb(101), "expected 0 to 100 percent"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Callable[[], object], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        wrong()
