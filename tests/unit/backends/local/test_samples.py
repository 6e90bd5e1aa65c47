"""From the supervisors' files and the GPUs of a machine to inputs of the round loop."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.inbox import Inbox
from shunter.backends.local.samples import Samples
from shunter.backends.profiles import GpuReader, GpuUse
from shunter.backends.supervised.watch import Watch
from shunter.core.intake.inputs import Input
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.ids import JobId

pytestmark = pytest.mark.asyncio


class Gpus(GpuReader):
    def read(self, indices: Iterable[int] | None = None) -> tuple[GpuUse, ...]:
        return (
            GpuUse(0, "GPU-a", utilisation=0.5, memory_mb=900, memory_by_pid={10: 300, 20: 600}),
            GpuUse(1, "GPU-b", utilisation=1.0, memory_mb=200),
        )


def watch(root: Path, number: int, gpus: list[str], pids: list[int]) -> Watch:
    """Return an attempt that its supervisor has sampled."""
    folder = root / f"j{number}"
    folder.mkdir(exist_ok=True)
    sample = {"step": number, "batch_s": 0.1, "pids": pids, "cpus": 1.0, "memory_mb": 5}
    (folder / "sample").write_text(json.dumps({**sample, "at_ns": time.monotonic_ns()}))
    started: Any = {"gpus": gpus}  # the rest of its record is not read here
    return Watch(JobId(f"j{number}"), 1, str(folder), started=started)


async def gathered(samples: Samples, inbox: Inbox, watches: list[Watch]) -> list[Input]:
    await samples.gather(lambda: watches)
    return list((await inbox.observe(inbox.now_us() + 1))[1])


async def test_jobs_get_the_readings_of_their_own_gpus(tmp_path: Path) -> None:
    inbox = Inbox()
    samples = Samples(inbox, 0.0, Gpus())
    watches = [
        watch(tmp_path, 1, ["0"], [10]),
        watch(tmp_path, 2, ["GPU-b"], [99]),
        watch(tmp_path, 3, ["0"], [20]),
        watch(tmp_path, 4, [], [30]),
    ]
    seen = await gathered(samples, inbox, watches)
    found = {
        one.job_id: (one.gpu_utilisation, one.gpu_memory_mb)
        for one in seen
        if isinstance(one, ProfileSampled)
    }
    # j1 and j3 share a GPU, on which each has its own processes; j2's are hidden, and alone there.
    assert found == {"j1": (0.5, 300), "j2": (1.0, 200), "j3": (0.5, 600), "j4": (None, None)}


async def test_a_sample_is_taken_once(tmp_path: Path) -> None:
    inbox = Inbox()
    samples = Samples(inbox, 0.0, Gpus())
    watches = [watch(tmp_path, 1, ["0"], [10])]
    assert len(await gathered(samples, inbox, watches)) == 1
    assert await gathered(samples, inbox, watches) == []


async def test_sample_of_an_attempt_that_is_over_is_dropped(tmp_path: Path) -> None:
    inbox = Inbox()
    samples = Samples(inbox, 3600.0, Gpus())  # a batch would wait for an hour
    watches = [watch(tmp_path, 1, ["0"], [10])]
    assert await gathered(samples, inbox, watches) == []
    samples._downsampler.offer(ProfileSampled(0, JobId("j1"), 1))  # long due, but its job has gone
    watches.clear()
    assert await gathered(samples, inbox, watches) == []
