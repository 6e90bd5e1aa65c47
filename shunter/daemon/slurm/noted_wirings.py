"""How the GPUs of Slurm's nodes are wired, as pilots there have noted it.

A daemon that starts may have no pilot anywhere, and a pilot comes up while jobs are planned. So
each pilot notes the wiring of its node on the folder that all share, and the next start reads it.
"""

import os
from collections.abc import Iterable

from shunter.backends.live.messages import Wiring, wiring_in
from shunter.backends.node.host.wiring import NOTED
from shunter.backends.node.messages import WrongMessageError
from shunter.backends.node.records import get
from shunter.config.live.slurm import SlurmSection
from shunter.events.values import ConfigurationSet, NodeName


def noted_wirings(
    section: SlurmSection, servers: Iterable[tuple[NodeName, ConfigurationSet]]
) -> dict[NodeName, Wiring]:
    """Return what was noted of servers with several GPUs.

    A pilot sees all GPUs of its node. Where these are others than the config says, nobody knows
    which of them a pilot will get.
    """
    if section.mode != "pilot":
        return {}
    root = os.path.abspath(section.root)  # noqa: PTH100  as the backend has it
    found: dict[NodeName, Wiring] = {}
    for name, configuration in servers:
        if configuration.gpus < 2:
            continue
        try:
            record = get(f"{root}/nodes/{name}/{NOTED}")
            told = None if record is None else wiring_in(record)
        except WrongMessageError as error:
            told = Wiring(cause=f"what a pilot has noted cannot be read: {error}")
        except OSError as error:
            told = Wiring(cause=f"what a pilot has noted cannot be read: {error.strerror}")
        if told is not None and told.gpus and len(told.gpus) != configuration.gpus:
            seen = len(told.gpus)
            told = Wiring(cause=f"a pilot saw {seen} GPUs there, and the config says otherwise")
        if told is not None:
            found[name] = told
    return found
