"""`[cluster]`: groups of equal servers, and the configuration sets they become.

A group names its servers by a hostlist, as Slurm writes them. The map inside a server is a number,
where GPUs are numbered along the wiring (`switches = 4` with 8 GPUs means that GPUs 0-1 hang on one
switch, 2-3 on the next, and so on), or the groups themselves. CPU servers with `units` are a kind
of accelerator: their type is used as GPU types are.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from shunter.config.section import Count, Positive, Section
from shunter.events import (
    CPU_UNITS,
    ConfigurationSet,
    GpuType,
    Level,
    LevelGroups,
    NodeName,
    gpu_numbers,
)

if TYPE_CHECKING:
    from shunter.backends.live import Socket

# `[cluster.devices]`.

GPU: Final = "gpu"
VISIBLE: Final = {
    GPU: "CUDA_VISIBLE_DEVICES",
    "rocm": "ROCR_VISIBLE_DEVICES",
    "tpu": "TPU_VISIBLE_CHIPS",
}
"""By kind of device, the variable by which a process is told which ones it may use."""


class DeviceKind(Section):
    """A kind of accelerator, by what a job's processes are told of theirs."""

    visible: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="environment variable that lists the devices a process may use",
    )


GpuGroups = tuple[Annotated[tuple[Count, ...], Field(min_length=1)], ...]
"""The numbers of the GPUs of each group."""
CpuGroups = GpuGroups
"""The numbers of the CPUs of each socket."""


class Parts(NamedTuple):
    """The parts of a level: how many, or the GPUs of each, and their keys."""

    key: str
    number: int
    groups_key: str
    groups: GpuGroups


GPUS_MAX = 64  # a mask of GPUs is one integer of a JSON row, and readers of SQL take 64 bits
SERVERS_MOST = 100_000
_BRACKETS = re.compile(r"\[([^\]]*)\]|([,&!^])")
_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})(?:/[0-9]+)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Gigabytes = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class NodeGroup(Section):
    """Servers of one kind."""

    name: str = Field(description="hostlist, as Slurm writes them: 'gpu[001-100]'; '' is no server")
    count: Count | None = Field(
        default=None,
        description="of a hostlist, the first so many; a plain name is numbered from 1; 0: absent",
    )
    gpus: Annotated[int, Field(ge=0, le=GPUS_MAX)] = Field(description="GPUs of each server")
    units: Annotated[int, Field(ge=0, le=GPUS_MAX)] = Field(
        default=0,
        description="of a server without GPUs: equal parts of its CPUs, each of which a job takes "
        "in place of a GPU if it accepts the type; 0: its CPUs are for CPU jobs alone",
    )
    type: str = Field(
        default="gpu", min_length=1, description="GPU type, such as 'v100'; of units their own type"
    )
    device: str = Field(
        default=GPU,
        min_length=1,
        description="kind of its accelerators: 'gpu' (CUDA), 'rocm', 'tpu', or a name of "
        "cluster.devices; keys and jobs count them as `gpus` whatever they are",
    )
    cpus: Count = Field(default=0, description="CPU cores of each server")
    memory_gb: Gigabytes = Field(default=0.0, description="memory of each server; 1 GB is 1000 MB")
    rack: str = Field(
        default="",
        description="rack; '' is unknown; in Slurm, with rack and domain left out, that of its "
        "topology.conf",
    )
    domain: str = Field(
        default="", description="network domain above racks; '' is unknown; in Slurm as rack"
    )
    sockets: Positive = Field(default=1, description="CPU sockets; they divide the GPUs evenly")
    switches: Positive = Field(default=1, description="PCIe switches; they divide the GPUs evenly")
    socket_gpus: GpuGroups = Field(
        default=(),
        description="instead of sockets, the GPUs of each, such as [[0, 1, 2], [3, 4, 5, 6, 7]]",
    )
    switch_gpus: GpuGroups = Field(
        default=(),
        description="instead of switches, the GPUs of each; every switch is on one socket",
    )
    socket_cpus: CpuGroups = Field(
        default=(),
        description="the CPUs of each socket by number, in the order of sockets or socket_gpus; "
        "what runs on GPUs of a socket is bound to its CPUs",
    )
    nvlink: tuple[tuple[Count, ...], ...] = Field(
        default=(),
        description="groups of GPU numbers joined directly, such as [[0, 1], [2, 3]]; they are "
        "nearer than those of a switch, and may lie across switches and sockets",
    )

    @field_validator("name")
    @classmethod
    def _is_hostlist(cls, name: str) -> str:
        expanded_hostlist(name)
        return name

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if (
            self._is_list
            and self.count is not None
            and self.count > len(expanded_hostlist(self.name))
        ):
            raise ValueError(
                f"count = {self.count}, and {self.name!r} names "
                f"{len(expanded_hostlist(self.name))} servers"
            )
        if not self.names:
            return self
        if not self.gpus and not self.cpus:
            raise ValueError("gpus = 0 and cpus = 0: a server needs GPUs or CPUs")
        if self.units:
            self._check_units()
        what = "units" if self.units else "gpus"
        self._levels(what)
        check_cpus(self._socket_parts, self.socket_cpus, self.cpus)
        self._check_links()
        return self

    def _check_units(self) -> None:
        if self.device != GPU:
            raise ValueError(f"units = {self.units} and device = {self.device!r}: leave one out")
        if self.gpus:
            raise ValueError(
                f"units = {self.units} and gpus = {self.gpus}: units are for servers without GPUs; "
                "leave one out"
            )
        if self.cpus % self.units:
            raise ValueError(
                f"units = {self.units} does not divide cpus = {self.cpus} evenly: "
                "each unit has equally many CPUs"
            )

    def _check_links(self) -> None:
        for group in self.nvlink:
            wrong = [gpu for gpu in group if gpu >= self.gpus]
            if wrong or len(set(group)) != len(group) or len(group) < 2:
                raise ValueError(
                    f"nvlink group {list(group)}: expected two or more different GPU numbers from "
                    f"0 to {self.gpus - 1}"
                )

    @property
    def accelerators(self) -> int:
        """The GPUs of each server, or the units in their place."""
        return self.gpus or self.units

    @property
    def names(self) -> tuple[NodeName, ...]:
        """The names of its servers; none where the group is absent."""
        names = expanded_hostlist(self.name)
        if self.count is not None and names and not self._is_list:
            names = [f"{names[0]}{number}" for number in range(1, self.count + 1)]
        return tuple(NodeName(name) for name in names[: self.count])

    @property
    def _is_list(self) -> bool:
        """Whether the name lists names, instead of being one to be numbered."""
        return any(sign in self.name for sign in "[,&!^")

    def configuration(self, name: str) -> ConfigurationSet:
        """Return what its servers share, under a name."""
        links = tuple(sum(1 << gpu for gpu in group) for group in self.nvlink)
        return ConfigurationSet(
            name=name,
            gpu_type=GpuType(self.type),
            gpus=self.accelerators,
            cpus_milli=self.cpus * 1000,
            memory_mb=round(self.memory_gb * 1000),
            rack=self.rack,
            domain=self.domain,
            levels=(*joined_level(self.accelerators, links), *self._levels("gpus")),
            links=links,
            device=CPU_UNITS if self.units else self.device,
        )

    def _levels(self, what: str) -> tuple[LevelGroups, ...]:
        """Return the map of its GPUs; `what` is the key that says how many there are."""
        return levels_of(self.accelerators, self._socket_parts, self._switch_parts, what)

    @property
    def _socket_parts(self) -> Parts:
        return Parts("sockets", self.sockets, "socket_gpus", self.socket_gpus)

    @property
    def _switch_parts(self) -> Parts:
        return Parts("switches", self.switches, "switch_gpus", self.switch_gpus)

    @property
    def socket_masks(self) -> tuple[int, ...]:
        """The GPUs of each of its sockets, in the order of the config."""
        return masks_of(self._socket_parts, self.accelerators, "gpus")

    @property
    def switch_masks(self) -> tuple[int, ...]:
        """The GPUs of each of its switches, in the order of the config."""
        return masks_of(self._switch_parts, self.accelerators, "gpus")

    @property
    def cpu_sockets(self) -> "tuple[Socket, ...]":
        """Its sockets with their CPUs; none where these are not given."""
        if not self.socket_cpus:
            return ()
        from shunter.backends.live import Socket

        return tuple(map(Socket, self.socket_masks, self.socket_cpus))


class ClusterSection(Section):
    """The servers of the cluster, from tables or a file, in the order they join it."""

    # Never dumped: once the file is read, its servers stand in `nodes`, and a run records those.
    file: str | None = Field(
        default=None,
        min_length=1,
        exclude=True,
        description="a cluster file of the Tiresias simulator, instead of nodes",
    )
    nodes: tuple[NodeGroup, ...] = Field(default=(), description="groups of equal servers")
    devices: dict[str, DeviceKind] = Field(
        default={}, description="kinds of accelerators beside 'gpu', 'rocm' and 'tpu', by name"
    )

    @model_validator(mode="after")
    def _has_servers(self) -> Self:
        if self.file is not None:
            if self.nodes:
                raise ValueError("file and nodes are both given: expected one of them")
            return self
        if not self.nodes:
            raise ValueError("no server: expected tables [[cluster.nodes]] or file = 'FILE'")
        names = [name for group in self.nodes for name in group.names]
        if not names:
            raise ValueError("no server is left: every group has count = 0 or an empty hostlist")
        if len(set(names)) != len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise ValueError(f"server {twice!r} is listed twice; names must be unique")
        self._check_devices()
        self._check_unit_types()
        return self

    def _check_devices(self) -> None:
        """Hold that every kind of device is known, and a type is of one kind."""
        if CPU_UNITS in self.devices:
            raise ValueError(
                f"devices.{CPU_UNITS}: units of CPU are no devices: expected another name"
            )
        kinds: dict[str, str] = {}
        for group in self.nodes:
            if not group.names or not group.gpus:
                continue
            if group.device not in VISIBLE and group.device not in self.devices:
                known = ", ".join(map(repr, (*VISIBLE, *self.devices)))
                raise ValueError(
                    f"device {group.device!r} is not known: expected one of {known}, or a table "
                    f"[cluster.devices.{group.device}] with its variable, visible = 'NAME'"
                )
            if kinds.setdefault(group.type, group.device) != group.device:
                raise ValueError(
                    f"type {group.type!r} names devices of two kinds, {kinds[group.type]!r} and "
                    f"{group.device!r}: give each kind types of its own"
                )

    def _check_unit_types(self) -> None:
        """Hold that a type is one of GPUs, or of units of one size: it has one speed."""
        cpus: dict[str, int] = {}  # of each unit of a type; 0: it is one of GPUs
        for group in self.nodes:
            if not group.names or not group.accelerators:
                continue
            of_unit = group.cpus // group.units if group.units else 0
            known = cpus.setdefault(group.type, of_unit)
            if known == of_unit:
                continue
            if known and of_unit:
                sizes = f"units of {known} and of {of_unit} CPUs"
            else:
                sizes = "both GPUs and units of CPUs"
            raise ValueError(
                f"type {group.type!r} names {sizes}, which are not equally fast: "
                "give each a type of its own, such as 'cpu'"
            )

    def servers(self) -> tuple[tuple[NodeName, ConfigurationSet], ...]:
        """Return every server with its configuration set, one object for equal ones."""
        sets = _ConfigurationSets()
        return tuple(
            (name, configuration)
            for group in self.nodes
            if group.names
            for configuration in [sets.of(group)]
            for name in group.names
        )

    def groups(self) -> dict[NodeName, NodeGroup]:
        """Return the group that each server belongs to."""
        return {name: group for group in self.nodes for name in group.names}

    def visible(self) -> dict[NodeName, str]:
        """Return the variable of devices, for servers of others than CUDA's."""
        variables = VISIBLE | {name: kind.visible for name, kind in self.devices.items()}
        return {
            name: variables[group.device]
            for group in self.nodes
            if group.gpus and variables[group.device] != VISIBLE[GPU]
            for name in group.names
        }

    def cpu_sockets(self) -> "dict[NodeName, tuple[Socket, ...]]":
        """Return the sockets of servers whose CPUs are given by socket."""
        return {
            name: group.cpu_sockets
            for group in self.nodes
            if group.socket_cpus
            for name in group.names
        }

    @property
    def gpus(self) -> int:
        """All GPUs, without units of CPUs."""
        return sum(group.gpus * len(group.names) for group in self.nodes)

    @property
    def units(self) -> int:
        """All units of CPUs."""
        return sum(group.units * len(group.names) for group in self.nodes)

    @property
    def racks(self) -> tuple[str, ...]:
        """The racks that are known, each once."""
        racks = (group.rack for group in self.nodes if group.rack and group.names)
        return tuple(dict.fromkeys(racks))


class _ConfigurationSets:
    """Names configuration sets: type and GPUs, numbered where that is not enough."""

    def __init__(self) -> None:
        self._named: dict[ConfigurationSet, ConfigurationSet] = {}
        self._alike: Counter[str] = Counter()

    def of(self, group: NodeGroup) -> ConfigurationSet:
        unnamed = group.configuration("")
        found = self._named.get(unnamed)
        if found is None:
            name = f"{group.type}x{group.accelerators}"
            self._alike[name] += 1
            number = self._alike[name]
            found = group.configuration(f"{name}#{number}" if number > 1 else name)
            self._named[unnamed] = found
        return found


def _named_most(hostlist: str) -> int:
    """Return a bound of how many names a hostlist stands for, without making one."""
    total, here = 0, 1
    for ranges, comma in _BRACKETS.findall(hostlist + ","):
        if comma:
            total, here = total + here, 1
        else:
            ends = (_RANGE.fullmatch(part.strip()) for part in ranges.split(","))
            here *= sum(max(1, int(found[2]) - int(found[1]) + 1) if found else 1 for found in ends)
    return total


def expanded_hostlist(hostlist: str) -> Sequence[str]:
    """Return the names a hostlist stands for.

    Raises:
        ValueError: it is none, or a name in it is no host name.
    """
    if not hostlist.strip():
        return ()
    if _NAME.fullmatch(hostlist):
        return (hostlist,)  # a plain name stands for itself: nothing need be imported to read it
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    if _named_most(hostlist) > SERVERS_MOST:
        raise ValueError(f"{hostlist[:60]!r} names more than {SERVERS_MOST:,} servers")
    try:
        names = [str(name) for name in NodeSet(hostlist, resolver=RESOLVER_NOGROUP)]
    except NodeSetException as error:
        raise ValueError(f"expected a hostlist such as 'gpu[001-100]': {error}") from error
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"expected host names of letters, digits, '.', '-', '_', not {name!r}")
    return names


# A level inside a server is a number of parts that divide the GPUs evenly in their order, or the
# groups themselves. It covers every GPU once, and a switch is on one socket (Xiao, SOSP-SRC 2017:
# an 8-bit map of 2 CPUs x 2 PCIe switches x 2 GPUs).


def levels_of(
    gpus: int, sockets: Parts, switches: Parts, what: str = "gpus"
) -> tuple[LevelGroups, ...]:
    """Return the levels inside a server, the nearest first.

    Those that tell nothing are left out.

    Args:
        gpus: how many it has.
        sockets: of its CPUs.
        switches: of PCIe.
        what: the key that says how many GPUs there are, for messages.
    Raises:
        ValueError: a level does not cover each GPU once, or a switch is on two sockets.
    """
    on_socket, on_switch = (
        tuple(sorted(masks_of(parts, gpus, what))) for parts in (sockets, switches)
    )
    if len(on_switch) > 1:
        are_counted = not sockets.groups and not switches.groups
        if are_counted and switches.number % sockets.number:
            raise ValueError(
                f"switches = {switches.number} is no multiple of sockets = {sockets.number}"
            )
        _check_nesting(on_switch, on_socket)
    found = []
    if len(on_switch) > 1:
        found.append(LevelGroups(Level.switch, on_switch))
    # Also where every socket has one switch: a level that is left out divides nothing, and a gang
    # with max_level = "socket" would lie across sockets.
    if len(on_socket) > 1:
        found.append(LevelGroups(Level.socket, on_socket))
    return tuple(found)


def joined_level(gpus: int, links: Sequence[int]) -> tuple[LevelGroups, ...]:
    """Return the level of NVLink; a GPU without links is a group alone.

    Args:
        gpus: how many there are.
        links: the masks of those joined; without any there is no such level.
    """
    if not links:
        return ()
    alone = [1 << gpu for gpu in range(gpus) if not any(mask >> gpu & 1 for mask in links)]
    return (LevelGroups(Level.nvlink, tuple(sorted({*links, *alone}))),)


def masks_of(parts: Parts, gpus: int, what: str) -> tuple[int, ...]:
    """Return the groups of a level as masks, in the order in which they are given.

    Raises:
        ValueError: they do not cover each GPU once.
    """
    key, count = parts.key, parts.number
    if parts.groups:
        if count > 1:
            raise ValueError(
                f"{key} = {count} and {parts.groups_key} are both given: expected one of them"
            )
        return _grouped(parts, gpus, what)
    if count > 1 and (not gpus or gpus % count):
        raise ValueError(f"{key} = {count} does not divide {what} = {gpus} evenly")
    size = gpus // count
    return tuple(((1 << size) - 1) << (size * part) for part in range(count))


def check_cpus(sockets: Parts, given: CpuGroups, cpus: int) -> None:
    """Hold that the CPUs of sockets are given for each, and each CPU once.

    Args:
        sockets: as they are given.
        given: the CPUs of each, in the same order; empty: they are not given.
        cpus: how many the server has; 0: nobody says it.
    Raises:
        ValueError: they are not.
    """
    if not given:
        return
    count = len(sockets.groups) or sockets.number
    if len(given) != count:
        key = sockets.groups_key if sockets.groups else sockets.key
        raise ValueError(
            f"socket_cpus lists {len(given)} sockets, and {key} says {count}: expected the CPUs of "
            "each socket"
        )
    named = [cpu for group in given for cpu in group]
    if len(set(named)) != len(named):
        twice = next(cpu for at, cpu in enumerate(named) if cpu in named[:at])
        raise ValueError(f"socket_cpus: CPU {twice} stands twice: expected it on one socket")
    if cpus and len(named) != cpus:
        raise ValueError(
            f"socket_cpus names {len(named)} CPUs, and cpus = {cpus}: expected each of them once"
        )


def _check_nesting(switches: tuple[int, ...], sockets: tuple[int, ...]) -> None:
    for switch in switches:
        if not any(switch & ~socket == 0 for socket in sockets):
            raise ValueError(
                f"switch {gpu_numbers(switch)} lies across sockets: expected all of its GPUs in "
                f"one of {[gpu_numbers(socket) for socket in sockets]}"
            )


def _grouped(parts: Parts, gpus: int, what: str) -> tuple[int, ...]:
    key, seen = parts.groups_key, 0
    masks = []
    for group in parts.groups:
        for gpu in group:
            if gpu >= gpus:
                raise ValueError(
                    f"{key}: {list(group)} names GPU {gpu}, and {what} = {gpus}: expected numbers "
                    f"below {gpus}"
                )
            if seen >> gpu & 1:
                raise ValueError(
                    f"{key}: GPU {gpu} stands twice: expected groups that do not overlap"
                )
            seen |= 1 << gpu
        masks.append(sum(1 << gpu for gpu in group))
    missing = ((1 << gpus) - 1) & ~seen
    if missing:
        raise ValueError(
            f"{key}: no group has GPU {gpu_numbers(missing)[0]}: expected a map that covers all "
            f"{what} = {gpus}"
        )
    return tuple(masks)
