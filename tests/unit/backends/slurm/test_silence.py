"""For how long Slurm has not answered, that people are told of it once, and cancelled commands."""

import gc
import warnings
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from shunter.backends.slurm import Slurm
from shunter.clock import clock_set
from shunter.daemon import tell_silence
from shunter.errors import SlurmUnknownError
from shunter.events import NodeName
from tests.doubles.virtual_clock import VirtualClock

SECOND_NS = 10**9
SINFO = """#!/bin/sh
[ -e '{up}' ] && echo slurm 22.05.8 && exit
echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2
exit 1
"""


def asks(slurm: Slurm) -> None:
    """Ask Slurm something."""
    anyio.run(slurm.version)


def test_silence_is_told_after_some_seconds_and_ends_with_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up, command = tmp_path / "up", tmp_path / "sinfo"
    command.write_text(SINFO.format(up=up))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    clock = VirtualClock()
    with clock_set(clock):
        slurm = Slurm()
        assert slurm.silence == ""
        for silence in ("", "Slurm has not answered for 12 s: sinfo cannot reach slurmctld"):
            with pytest.raises(SlurmUnknownError):
                asks(slurm)
            assert slurm.silence.partition(" (")[0] == silence
            clock.advance(12 * SECOND_NS)
        up.touch()
        asks(slurm)
        assert slurm.silence == ""
        command.unlink()
        with pytest.raises(SlurmUnknownError):
            asks(slurm)
        clock.advance(61 * SECOND_NS)
        assert slurm.silence == "Slurm has not answered for 1 min: sinfo is not there"


class Quiet:
    """A backend that says what a test has put into it."""

    silence = ""

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        return {}


def test_people_are_told_once_that_slurm_is_silent_and_once_that_it_is_back() -> None:
    backend, told = Quiet(), list[str]()

    async def follow() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell_silence, backend, told.append)
            for silence in ("", "no answer for 10 s", "no answer for 11 s", "", ""):
                backend.silence = silence
                await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()

    VirtualClock().run(follow)
    silent, back = told
    assert silent.startswith("no answer for 10 s; jobs run on")
    assert back == "Slurm answers again"


@pytest.mark.parametrize("turns", range(12))
def test_command_that_is_cancelled_while_it_starts_is_ended_before_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """As where a daemon stops; what is left running warns once it is collected."""
    command = tmp_path / "sinfo"
    command.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    async def stop() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Slurm().version)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        anyio.run(stop)
        gc.collect()
    assert [str(each.message) for each in seen] == []


def test_command_is_read_to_its_end_and_has_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "sbatch"
    command.write_text("#!/bin/sh\n/bin/cat; echo said >&2; exit 3\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    text = "x" * 300_000

    async def answered() -> tuple[int, str, str]:
        answer = await Slurm().run(["sbatch"], stdin=text)
        return answer.status, answer.out, answer.err

    assert anyio.run(answered) == (3, text, "said\n")
