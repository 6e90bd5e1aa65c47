"""What hosts have, asked once and beside any scheduler: for `shunter init --ssh` and `doctor`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from shunter import clock
from shunter.backends.agents.transport import run_verb
from shunter.backends.node.messages import an_object
from shunter.backends.profiles import why_unseen
from shunter.backends.ssh.settings import SshAccess, SshHost, SshSettings
from shunter.backends.ssh.transport import SshTransport
from shunter.errors import BackendError

INVENTORY_S = 60.0


@dataclass(frozen=True, slots=True)
class HostInventory:
    """What a host has, or why nobody knows.

    `found` is the answer of `shunter.backends.node.host.host_inventory`, and `gpu_fault` why
    neither NVML nor nvidia-smi names a GPU. `ahead_s` is how far its wall clock is ahead of ours,
    and `slow_s` how long connecting and answering took.
    """

    host: SshHost
    found: dict[str, Any] | None = None
    cause: str = ""
    ahead_s: float = 0.0
    slow_s: float = 0.0


def host_inventories(
    hosts: tuple[SshHost, ...], access: SshAccess, connect_s: float
) -> list[HostInventory]:
    """Ask all hosts at once; return what each has, in the order given."""
    return anyio.run(_take_inventories, hosts, access, connect_s)


async def _take_inventories(
    hosts: tuple[SshHost, ...], access: SshAccess, connect_s: float
) -> list[HostInventory]:
    settings = SshSettings(hosts, access, "", 0, "", "", connect_s=connect_s)
    limit = anyio.Semaphore(settings.simultaneous)
    found: dict[str, HostInventory] = {}

    async def ask(host: SshHost) -> None:
        found[host.name] = await _take_inventory(host, settings, limit)

    async with anyio.create_task_group() as tasks:
        for host in hosts:
            tasks.start_soon(ask, host)
    return [found[host.name] for host in hosts]


async def _take_inventory(
    host: SshHost, settings: SshSettings, limit: anyio.Semaphore
) -> HostInventory:
    began_s = clock.monotonic_s()
    try:
        async with SshTransport(host, settings, limit).opened() as link:
            asked_s = clock.wall_s()
            words = ["survey", host.base, host.cgroup]
            answer: dict[str, Any] = await run_verb(
                link, host.name, words, limit_s=INVENTORY_S, shape=an_object
            )
            # Its clock was read within the question: half of that is what nobody can know.
            middle_s = (asked_s + clock.wall_s()) / 2
    except BackendError as error:
        return HostInventory(host, cause=str(error))
    ahead_s = float(answer["wall_s"]) - middle_s
    answer["gpu_fault"] = _why_no_gpus(answer)
    return HostInventory(host, answer, ahead_s=ahead_s, slow_s=clock.monotonic_s() - began_s)


def _why_no_gpus(answer: Mapping[str, Any]) -> str:
    """Return what NVML and nvidia-smi said where they told of no GPU."""
    if answer["gpus"] or answer["gpus_lost"]:
        return "" if answer["gpus"] else "all are lost"
    return why_unseen(answer["gpu_code"], answer["gpu_said"])
