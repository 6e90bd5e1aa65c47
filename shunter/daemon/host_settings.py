"""From `[cluster]` and `[backend.ssh]` to the settings of the SSH backend."""

import os
import secrets

from shunter.backends.live import NO_DEVICE, Socket, SshAccess, SshHost, SshSettings
from shunter.config import ClusterSection, SshHostSection, SshSection, shared_limits
from shunter.counting import counted
from shunter.errors import ConfigError
from shunter.events import ConfigurationSet, NodeName


def ssh_settings(
    section: SshSection, cluster: ClusterSection, cluster_id: str, term: int
) -> SshSettings:
    """Return what the SSH backend is told for a term.

    Raises:
        ConfigError: a host is no server of the cluster, or has fewer GPU names than GPUs.
    """
    return SshSettings(
        hosts=hosts_of(section, cluster),
        access=access_of(section),
        cluster_id=cluster_id,
        term=term,
        holder=secrets.token_hex(8),
        root=os.path.abspath(section.root),  # noqa: PTH100 the path need not exist, nor be resolved
        checkpoints=section.checkpoints,
        connect_s=section.connect / 1e6,
        keepalive_s=section.keepalive / 1e6,
        call_s=section.call / 1e6,
        simultaneous=section.simultaneous,
        patrol_s=section.heartbeat / 1e6,
        margin_s=section.margin / 1e6,
        **shared_limits(section),
    )


def access_of(section: SshSection) -> SshAccess:
    """Return whom we believe and who we are."""
    return SshAccess(section.known_hosts, section.keys, section.agent, section.config)


def hosts_of(section: SshSection, cluster: ClusterSection) -> tuple[SshHost, ...]:
    """Return how each server of a cluster is reached.

    Raises:
        ConfigError: a host is no server of the cluster, or has fewer GPU names than GPUs.
    """
    servers = cluster.servers()
    strange = sorted(section.hosts.keys() - {name for name, _ in servers})
    if strange:
        raise ConfigError(
            f"backend.ssh.hosts.{strange[0]}: [cluster] has no server of that name: add it there, "
            "or take the table out"
        )
    usual, sockets = SshHostSection(), cluster.cpu_sockets()
    return tuple(
        _host(name, where, section.hosts.get(name, usual), section, sockets.get(name, ()))
        for name, where in servers
    )


def _host(
    name: NodeName,
    where: ConfigurationSet,
    own: SshHostSection,
    usual: SshSection,
    sockets: tuple[Socket, ...],
) -> SshHost:
    gpus = tuple(str(number) for number in range(where.gpus)) if own.gpus is None else own.gpus
    if where.unit_cpus_milli:
        if own.gpus:
            raise ConfigError(
                f"backend.ssh.hosts.{name}.gpus: [cluster] gives it units of CPU and no GPUs: "
                "leave it out"
            )
        gpus = (NO_DEVICE,) * where.gpus
    if len(gpus) < where.gpus:
        raise ConfigError(
            f"backend.ssh.hosts.{name}.gpus names {counted(len(gpus), 'GPU')}, and [cluster] "
            f"gives it {where.gpus}: name them all"
        )
    cpus = tuple(range(where.cpus_milli // 1000))
    if sockets:
        cpus = tuple(sorted(cpu for socket in sockets for cpu in socket.cpus))
    if own.cpus is not None:
        strange = sorted({*own.cpus} - {*cpus}) if sockets else []
        if strange:
            raise ConfigError(
                f"backend.ssh.hosts.{name}.cpus names CPU {strange[0]}, which is on no socket by "
                "socket_cpus of [cluster]: correct one of them"
            )
        cpus = own.cpus
    return SshHost(
        name=name,
        address=own.address or name,
        gpus=gpus,
        cpus=cpus,
        port=own.port or usual.port,
        user=own.user or usual.user,
        base=own.base or usual.base,
        python=own.python or usual.python,
        gang_address=own.gang_address,
        cgroup=own.cgroup,
        environment=own.environment,
        sockets=tuple(
            Socket(mask, tuple(cpu for cpu in near if cpu in cpus)) for mask, near in sockets
        ),
    )
