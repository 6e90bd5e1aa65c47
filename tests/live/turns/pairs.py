"""Two jobs that are tried beside each other, and what becomes of the pair: wherever they run."""

from pathlib import Path
from typing import Any

import shunter
from shunter.daemon import Site
from shunter.events import Event, TrialKept, TrialReverted, TrialStarted, TurnStarted
from tests.live.site.sites import NOBODY, events_until, of, program
from tests.live.turns.ledger import IS_HELD

POLICY: dict[str, Any] = {
    "name": "gandiva",
    "slicing": {"quantum": 1.0},
    "trigger": "event",
    "params": {"gandiva": {"packing": {"probe": 6.0}}},
}
"""Six samples come in a probe: a trial needs four of each, and is given up after two probes."""
BESIDE = (
    IS_HELD
    + """
import pathlib, sys, time
sys.path.insert(0, {package!r})
from shunter import train
from shunter.train import channel
here = pathlib.Path({here!r})
here.mkdir(exist_ok=True)
mine = open(here / {name!r}, "w")
channel.PROGRESS_EVERY_S = 0.0
run = train.start()
said = [{alone_s}]
counted = run._step_rate.taken
run._step_rate.taken = lambda: dict(counted(), batch_s=said[-1])
while True:
    fcntl.lockf(mine, fcntl.LOCK_EX)
    beside = any(is_held(each) for each in here.iterdir() if each.name != {name!r})
    time.sleep(0.02)
    fcntl.lockf(mine, fcntl.LOCK_UN)
    said.append({packed_s} if beside else {alone_s})
    run.step()
"""
)
ALONE_S = 0.05


def training(root: Path, name: str, packed_s: float, gpus: int = 1) -> Any:
    """Return a submission that says its mini-batches take longer while another job is in one.

    What a job does beside others on a GPU is said by locks here: there is no GPU. How long its
    mini-batches take is said and not measured: on a machine that is busy all take longer.
    """
    package = str(Path(shunter.__file__).parents[1])
    source = BESIDE.format(
        package=package, here=str(root / "at-work"), name=name, packed_s=packed_s, alone_s=ALONE_S
    )
    return program(source, gpus=gpus, model=name)


def ends(seen: list[Event]) -> list[TrialKept | TrialReverted]:
    """Return how trials ended."""
    return [*of(seen, TrialKept), *of(seen, TrialReverted)]


async def tries_a_pair(site: Site, root: Path, *, gains: bool, gpus: int = 1) -> None:
    """Submit two jobs that want the same GPUs, and hold that they are kept together if that gains.

    They say that their mini-batches take 50 ms alone, and beside each other 60, or else 1 s.
    """
    packed_s = 0.06 if gains else 1.0
    one, other = [await site.submit(training(root, name, packed_s, gpus), NOBODY) for name in "xy"]
    seen = await events_until(site, lambda seen: bool(ends(seen)))
    packed = site.state.jobs[one].packed_with
    if not gains:
        count = len(of(seen, TurnStarted))
        later = await events_until(site, lambda seen: len(of(seen, TurnStarted)) >= count + 4)
        assert len(of(later, TrialStarted)) == 1, "a known loser was tried again"
    (started,), (ended,) = of(seen, TrialStarted), ends(seen)
    assert {started.job_id, *started.partners} == {one, other}
    print(f"of {gpus} GPUs, measured {ended.measured} by {ended.batches}: {ended.reason}")
    assert isinstance(ended, TrialKept) == gains
    assert packed == ((other,) if gains else ())
    assert (ended.measured > 1) == gains
