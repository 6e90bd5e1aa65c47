"""Whose folder a base is, and when its scheduler counts as silent, whatever clocks do."""

import platform
import time
from pathlib import Path

import pytest

from shunter.backends.node import Heartbeat, base_of, is_networked, ownership, silence_s, write_beat

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
proc /proc proc rw 0 0
server:/export /nfs nfs4 rw,vers=4.2 0 0
/dev/sdb1 /nfs/scratch ext4 rw 0 0
lustre@tcp:/fs /lustre lustre rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> str:
    (tmp_path / "mounts").write_text(MOUNTS)
    return str(tmp_path / "mounts")


@pytest.mark.parametrize(
    ("path", "networked"),
    [
        ("/nfs/ana/.shunter", True),
        ("/nfs", True),
        ("/nfs/scratch/shunter", False),
        ("/nfsd/shunter", False),
        ("/lustre/shunter", True),
        ("/var/lib/shunter", False),
    ],
)
def test_folder_of_a_network_is_told_from_a_local_one(
    path: str, mounts: str, *, networked: bool
) -> None:
    assert is_networked(path, mounts) is networked
    own = f"{path}/{platform.node()}" if networked else path
    assert base_of(path, mounts) == own


def test_machine_that_does_not_tell_its_mounts_has_local_folders(tmp_path: Path) -> None:
    assert base_of("/nfs/ana", str(tmp_path / "none")) == "/nfs/ana"


S = 10**9


class Clock:
    """A clock that tests set."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def __call__(self) -> int:
        return int(self.now_s * S)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(1000.0)
    monkeypatch.setattr(ownership, "uptime_ns", clock)
    return clock


def test_sign_that_came_late_counts_from_when_it_was_sent(tmp_path: Path, clock: Clock) -> None:
    path = str(tmp_path / "beat")
    write_beat(path, 991 * S)
    beat = Heartbeat(path, 10.0, is_remote=True)
    assert not beat.is_over()
    clock.now_s = 1000.5
    write_beat(path, 990 * S)  # one that was overtaken changes nothing
    assert not beat.is_over()
    clock.now_s = 1001.1
    assert beat.is_over()


def test_sign_of_the_future_is_of_now(tmp_path: Path, clock: Clock) -> None:
    path = str(tmp_path / "beat")
    write_beat(path, 5000 * S)
    assert silence_s(path) == 0.0
    beat = Heartbeat(path, 10.0, is_remote=True)
    assert not beat.is_over()
    clock.now_s = 1010.5
    assert beat.is_over()


@pytest.mark.parametrize("said", ["", "no number", f"{5000 * S}"], ids=["none", "noise", "boot"])
def test_sign_that_tells_no_instant_counts_from_its_being_seen(
    tmp_path: Path, clock: Clock, said: str
) -> None:
    path = tmp_path / "beat"
    path.write_text(said)
    beat = Heartbeat(str(path), 10.0, is_remote=True)
    clock.now_s = 1009.0
    assert not beat.is_over()
    clock.now_s = 1020.0
    assert beat.is_over()


def test_without_any_sign_the_deadline_counts_from_the_first_look(
    tmp_path: Path, clock: Clock
) -> None:
    beat = Heartbeat(str(tmp_path / "beat"), 10.0, is_remote=True)
    assert not beat.is_over()
    clock.now_s = 1010.5
    assert beat.is_over()


def test_scheduler_of_an_earlier_boot_has_been_silent_since_this_one(
    tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "beat"
    assert silence_s(str(path)) is None
    path.write_text(f"{5000 * S}")
    assert silence_s(str(path)) == 1000.0


def test_scheduler_of_this_machine_sleeps_with_it(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a machine that slept past the deadline keeps its jobs. Method: set both clocks."""
    awake = Clock(500.0)
    monkeypatch.setattr(time, "monotonic_ns", awake)
    path = str(tmp_path / "beat")
    write_beat(path)
    near, far = Heartbeat(path, 10.0, is_remote=False), Heartbeat(path, 10.0, is_remote=True)
    assert not near.is_over()
    assert not far.is_over()
    clock.now_s, awake.now_s = 5000.0, 501.0
    assert not near.is_over()
    assert far.is_over()
    awake.now_s = 511.0
    assert near.is_over()


def test_uptime_counts_sleep_too() -> None:
    near_ns = abs(ownership.uptime_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    assert near_ns < S
