"""A switch of gangs, over every way in which agents are reached."""

import pytest

from shunter.backends.live import SupervisedBackend
from shunter.core import AttemptExited
from shunter.errors import BackendError
from shunter.events import JobId
from tests.contracts.backends import BackendKind, Driver, Program, driven
from tests.contracts.conftest import SUPERVISED_KINDS
from tests.factories import allocation, job_id

pytestmark = pytest.mark.asyncio

A, B, GONE = (job_id(0), 1), (job_id(1), 1), (job_id(9), 1)
TWO = (Program("j0", work_ticks=9), Program("j1", work_ticks=9))
BOTH_SERVERS = allocation(n0=0b0001, n1=0b0001)
Key = tuple[JobId, int]


async def switched(driver: Driver, stops: Key, continues: Key) -> tuple[set[str], set[str]]:
    """Switch from one gang to another; return how both stand, wherever they do."""
    backend = driver.stage.backend
    assert isinstance(backend, SupervisedBackend)
    stands = await backend.switch([stops], [continues])
    return set(stands[stops].values()), set(stands[continues].values())


@pytest.mark.parametrize("kind", SUPERVISED_KINDS[:-1])
async def test_gang_takes_the_turn_of_another_on_all_its_servers(kind: BackendKind) -> None:
    """Once, again, and back: whoever stands still does not come to its end, though it is due."""
    async with driven(kind, *TWO) as driver:
        await driver.starts("j0", BOTH_SERVERS)
        await driver.starts("j1", BOTH_SERVERS)
        for stops, continues in ((B, A), (B, A), (A, B)):
            assert await switched(driver, stops, continues) == ({"stopped"}, {"running"})
        await driver.ends("j1")
        assert driver.of(AttemptExited, "j0") == []
        gone, going = await switched(driver, GONE, A)
        assert gone == set()
        assert going <= {"running", "ended"}
        assert (await driver.ends("j0")).exit_code == 0


@pytest.mark.parametrize("kind", SUPERVISED_KINDS[-1:])
async def test_attempts_that_are_jobs_of_slurm_take_no_turns(kind: BackendKind) -> None:
    async with driven(kind, *TWO) as driver:
        await driver.starts("j0")
        with pytest.raises(BackendError, match="have GPUs of their own"):
            await switched(driver, GONE, A)
