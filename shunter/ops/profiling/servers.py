"""The servers on which a job can be measured: this machine, or one of a cluster over SSH.

A server of a cluster is reached by the transport of its config, with a folder of its own there and
in the name of nobody's cluster: a daemon that schedules it has its own agent, and is not asked.
"""

import os
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from shunter import clock
from shunter.backends.live.backend import SupervisedBackend
from shunter.backends.live.local import LocalBackend
from shunter.backends.live.settings import LocalNode, LocalSettings
from shunter.config.loading import LoadedConfig
from shunter.errors import ConfigError, extra_hint
from shunter.events.values import ConfigurationSet, NodeName
from shunter.ops.profiling.job_file import JobFile

if TYPE_CHECKING:
    from shunter.backends.live.settings import SshSettings


_GRACE_S, _SAMPLE_S, _LOOK_S = 2.0, 0.25, 0.25
_CLUSTER, _FOLDER = "profile", "-profile"
_HERE = NodeName("here")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class ThisServer:
    """This machine, with GPUs by their names and all CPUs that we have."""

    gpus: tuple[str, ...]
    cpus: tuple[int, ...]
    name: NodeName = _HERE
    is_here: bool = True

    def backend(self, root: str) -> SupervisedBackend:
        """Return the local backend."""
        settings = LocalSettings(
            root,
            (LocalNode(self.name, self.gpus, self.cpus),),
            1,
            environment=dict(os.environ),
            grace_s=_GRACE_S,
            sample_s=_SAMPLE_S,
            patrol_s=_LOOK_S,
            is_sized=True,
            downsamples=False,
            is_bound=True,  # or it would run on after a kill -9
        )
        return LocalBackend(settings)


@dataclass(frozen=True)
class SshServer:
    """A server of a cluster, over SSH; `settings` are those of it alone."""

    name: NodeName
    settings: "SshSettings"
    is_here: bool = False

    def backend(self, root: str) -> SupervisedBackend:
        """Return the SSH backend."""
        from shunter.backends.live.ssh import SshBackend

        return SshBackend(replace(self.settings, root=root))


def this_server(file: JobFile) -> ThisServer:
    """Return this machine, with the first of the GPUs that are ours.

    In Slurm those are the allocation's.

    Raises:
        ConfigError: the server of the file has more CPUs, or the job more GPUs, than are ours.
    """
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    if file.job.server.cpus > len(cpus):
        what = f"expected at most the {len(cpus)} that this machine has for us, "
        what += f"not {file.job.server.cpus}; run it on such a server"
        raise file.wrong("server", "cpus", what=what)
    visible = [gpu for gpu in os.environ.get(_VISIBLE, "").split(",") if gpu]
    ours = visible or [str(gpu) for gpu in range(file.job.gpus)]
    if file.job.gpus > len(ours):
        what = f"expected at most the {len(ours)} of {_VISIBLE}, not {file.job.gpus}"
        raise file.wrong("gpus", what=what)
    return ThisServer(tuple(ours[: file.job.gpus]), cpus)


def ssh_server(file: JobFile, loaded: LoadedConfig, name: str | None) -> SshServer:
    """Return a server of a cluster that is reached over SSH.

    Args:
        file: the job, whose server is held to it.
        loaded: the config of the cluster.
        name: the server; the first one with GPUs, if it is left out.
    Raises:
        ConfigError: the cluster is not reached over SSH, has no such server, or the server has
            less than the file says.
    """
    section = loaded.config.backend.ssh
    if loaded.config.backend.kind != "ssh" or section is None:
        raise ConfigError(
            f"{loaded.source}: backend.kind = {loaded.config.backend.kind!r}: expected 'ssh' to "
            "measure a job on one of its servers; on any other run `shunter profile` there, in "
            "Slurm as `srun shunter profile`"
        )
    if find_spec("asyncssh") is None:
        raise ConfigError(f"backend.kind = 'ssh' needs asyncssh: {extra_hint('ssh')}")
    from shunter.daemon.host_settings import ssh_settings

    servers = dict(loaded.config.cluster.servers())
    with_gpus = [node for node, where in servers.items() if where.gpus]
    node = NodeName(name) if name is not None else (with_gpus or list(servers))[0]
    if node not in servers:
        known = ", ".join(list(servers)[:5])
        raise ConfigError(f"{loaded.source}: [cluster] has no server {node!r}; it has {known}")
    _check(file, node, servers[node])
    # Of two that measure on one server the later one takes it over, as a later term of a daemon.
    settings = ssh_settings(section, loaded.config.cluster, _CLUSTER, int(clock.wall_s()))
    (host,) = [each for each in settings.hosts if each.name == node]
    alone = replace(
        settings,
        hosts=(replace(host, base=f"{host.base}{_FOLDER}"),),
        grace_s=_GRACE_S,
        sample_s=_SAMPLE_S,
        patrol_s=_LOOK_S,
        is_sized=True,
        downsamples=False,
        is_bound=True,  # or it would run on after a kill -9
    )
    return SshServer(node, alone)


def _check(file: JobFile, node: NodeName, where: ConfigurationSet) -> None:
    """Refuse a job that a server cannot run as its file says.

    Raises:
        ConfigError: the server has fewer GPUs or CPUs.
    """
    server, cpus = file.job.server, where.cpus_milli // 1000
    if file.job.gpus > where.gpus:
        what = f"expected at most the {where.gpus} of {node}, not {file.job.gpus}"
        raise file.wrong("gpus", what=what)
    if cpus and server.cpus > cpus:
        what = f"expected at most the {cpus} of {node}, not {server.cpus}"
        raise file.wrong("server", "cpus", what=what)
