"""Servers that answer but are about to end: nothing is started there, and no launch has failed."""

from shunter.backends.live import Limits, Owner, SupervisedBackend
from shunter.core import Input, Launch
from shunter.events import AttemptLost, NodeName
from tests.doubles.virtual_clock import VirtualClock
from tests.factories import allocation, job_id, job_spec
from tests.unit.backends.agents.memory_host import MemoryHost

J0 = job_id(0)


class DrainingBackend(SupervisedBackend):
    """A backend one of whose two servers is about to end."""

    def drain_of(self, node: NodeName) -> str:
        return "node n1 is about to end" if node == "n1" else ""


def test_gang_is_not_started_where_one_of_its_servers_is_about_to_end() -> None:
    hosts = [MemoryHost("n0"), MemoryHost("n1")]
    found: list[Input] = []

    async def main() -> None:
        async with DrainingBackend(Limits(), Owner("c0", 1, "h", "/memory"), hosts) as backend:
            await backend.perform([Launch(J0, 1, allocation(n0=1, n1=1), job_spec(2))], 0)
            found.extend((await backend.observe(60_000_000))[1])

    VirtualClock().run(main)
    (lost,) = found
    assert isinstance(lost, AttemptLost)
    assert (lost.job_id, lost.attempt) == (J0, 1)
    assert lost.cause == "it was not started: node n1 is about to end"
    assert not {do for host in hosts for _, do in host.asked} & {"port", "start", "fence"}
