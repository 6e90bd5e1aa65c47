"""A private Slurm cluster on this machine: real daemons in a scratch folder, four nodes, fake GPUs.

Node n1 and n2 have four V100s each, n3 four P100s, n4 eight K80s: device files that compute
nothing. Every daemon runs in the foreground below us, so that its process id is known and only
what this bench started is ever ended. The processes of jobs are known by their SLURM_CONF.
"""

import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 60.0
SEARCHED = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
CPUS = 16
MEMORY_MB = 64_000
CONTROLLER = "slurmctld"


@dataclass(frozen=True, slots=True)
class BenchNode:
    """What a node claims to have."""

    name: str
    gpu_type: str
    gpus: int
    features: str


NODES = (
    BenchNode("n1", "v100", 4, "v100,nvlink"),
    BenchNode("n2", "v100", 4, "v100,pcie"),
    BenchNode("n3", "p100", 4, "p100,pcie"),
    BenchNode("n4", "k80", 8, "k80,pcie"),
)
CONFIGURATION = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
SwitchType=switch/none
MpiDefault=none
TopologyPlugin=topology/tree
SlurmdParameters=config_overrides
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
SlurmdTimeout=10
SlurmctldTimeout=10
BatchStartTimeout=10
MessageTimeout=10
TCPTimeout=2
KillWait=3
MinJobAge=600
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.log
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE DefaultTime=60 State=UP
PartitionName=short Nodes={first_two} MaxTime=0:30:00 DefaultTime=10 State=UP
PartitionName=closed Nodes={third} MaxTime=60 State=DOWN
"""
NODE_LINE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} Sockets=2 "
    "CoresPerSocket=8 ThreadsPerCore=1 RealMemory={memory_mb} Feature={features} "
    "Gres=gpu:{gpu_type}:{gpus} State=UNKNOWN"
)
GRES_LINE = (
    "NodeName={name} Name=gpu Type={gpu_type} File={folder}/dev/{name}/nvidia[0-{last}] "
    "Flags=nvidia_gpu_env"
)
TOPOLOGY = """\
SwitchName=rack1 Nodes={first_two}
SwitchName=rack2 Nodes={others}
SwitchName=spine Switches=rack[1-2]
"""


def lacking(folder: Path) -> str:
    """Say what this machine lacks for the bench; nothing if it lacks nothing."""
    if os.geteuid() != 0:
        return "needs root: Slurm's daemons start jobs as their users"
    missing = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
    if missing:
        return f"needs slurmctld, slurmd, slurm-client and munge: {missing[0]} is missing"
    try:
        make_device(folder / "probe")
    except OSError as error:
        return f"needs a machine that lets us make device files ({error.strerror})"
    return ""


@dataclass(slots=True)
class SlurmBench:
    """Daemons below a folder, and how they are ill-used."""

    folder: Path
    first_port: int
    nodes: tuple[BenchNode, ...] = NODES
    _running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict, repr=False)

    @property
    def conf(self) -> Path:
        """The configuration, which every client command needs as SLURM_CONF."""
        return self.folder / "etc" / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of client commands and daemons."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("SLURM")}
        return {**kept, "PATH": SEARCHED, "SLURM_CONF": str(self.conf)}

    def start(self) -> None:
        """Write the configuration, start all daemons, and wait until the nodes are idle."""
        self._lay_out()
        self._start_munged()
        self.start_slurmctld()
        for node in self.nodes:
            self.start_slurmd(node.name, wait=False)
        self.wait_for(
            lambda: set(self.states().values()) == {"idle"}, f"idle nodes, not {self.states()}"
        )

    def close(self) -> None:
        """End all jobs and daemons of this bench, and nothing else."""
        if CONTROLLER in self._running:
            with suppress(subprocess.SubprocessError):
                self.command("scancel", "--user=root", check=False, timeout_s=10.0)
        for name in sorted(self._running, key=lambda name: name == "munged"):
            self._end(name, signal.SIGTERM)
        until_s = time.monotonic() + PATIENCE_S
        while left := self._jobs_processes():
            assert time.monotonic() < until_s, f"{left} outlive the bench"
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def command(
        self,
        *words: str,
        stdin: str = "",
        check: bool = True,
        timeout_s: float = PATIENCE_S,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run a client command, and return what it prints.

        Raises:
            AssertionError: it failed, and `check` is set.
        """
        done = subprocess.run(
            words,
            input=stdin,
            text=True,
            capture_output=True,
            check=False,
            timeout=timeout_s,
            env={**self.environment, **(environment or {})},
            cwd=self.folder / "out",
        )
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str) -> int:
        """Submit a batch script, and return its job id."""
        usual = ("--parsable", "--output=/dev/null", "--time=5", "--no-requeue")
        text = f"#!/bin/sh\n{script}\n"
        return int(self.command("sbatch", *usual, *options, stdin=text).partition(";")[0])

    def state_of(self, job: int) -> str:
        """Return the state of a job, such as RUNNING; of one that is unknown, nothing."""
        words = ("squeue", "-h", "-t", "all", "-o", "%T", "-j", str(job))
        return self.command(*words, check=False).strip()

    def states(self) -> dict[str, str]:
        """Return the states of the nodes, such as idle."""
        lines = self.command("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T", check=False)
        return dict(line.split()[:2] for line in lines.splitlines())

    def drain(self, node: str, reason: str = "bench") -> None:
        """Let no new job onto a node."""
        update = (f"NodeName={node}", "State=DRAIN", f"Reason={reason}")
        self.command("scontrol", "update", *update)

    def resume(self, node: str) -> None:
        """Let jobs onto a node again, and wait until it is idle."""

        def is_idle() -> bool:
            # Refused while the node has yet to register with a controller that was restarted.
            self.command("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
            return self.states()[node] == "idle"

        self.wait_for(is_idle, f"{node} idle")

    def start_slurmctld(self) -> None:
        """Start the controller with the state it saved, and wait until it answers."""
        self._start(CONTROLLER, ("slurmctld", "-D", "-f", str(self.conf)))
        self.wait_for(self.answers, "an answer of slurmctld")

    def kill_slurmctld(self) -> None:
        """Kill the controller as a crash would."""
        self._end(CONTROLLER, signal.SIGKILL)

    def stop_slurmctld(self) -> None:
        """Have the controller save all it knows, and end."""
        self._end(CONTROLLER, signal.SIGTERM)

    def start_slurmd(self, node: str, *, wait: bool = True) -> None:
        """Start the daemon of a node, and wait until the controller takes the node."""
        self._start(node, ("slurmd", "-D", "-N", node, "-f", str(self.conf)))
        if wait:
            fine = ("idle", "mixed", "allocated")
            self.wait_for(lambda: self.states()[node] in fine, f"node {node} in service")

    def kill_slurmd(self, node: str) -> None:
        """Kill the daemon of a node as a crash would; the processes of jobs live on."""
        self._end(node, signal.SIGKILL)

    def wait_until_saved(self, job: int) -> None:
        """Wait until the controller has saved a job as it is now, which takes seconds."""
        mark = f"saved-{time.monotonic_ns()}"
        self.command("scontrol", "update", f"JobId={job}", f"AdminComment={mark}")
        state = self.folder / "state" / "job_state"
        self.wait_for(
            lambda: state.exists() and mark.encode() in state.read_bytes(), f"saved job {job}"
        )

    def restore(self) -> None:
        """Leave no job, all daemons running and all nodes idle."""
        self.revive()
        left = self.command("squeue", "-h", "-a", "-o", "%A").split()  # whoever's they are
        if left:
            self.command("scancel", *left, check=False)
        for node_name, state in self.states().items():
            if state.startswith("drain"):  # one that is down comes back by itself
                self.resume(node_name)
        self.wait_for(
            lambda: set(self.states().values()) == {"idle"}, f"idle nodes, not {self.states()}"
        )

    def revive(self) -> None:
        """Have all daemons running."""
        if CONTROLLER not in self._running:
            self.start_slurmctld()
        for node in self.nodes:
            if node.name not in self._running:
                self.start_slurmd(node.name)

    def answers(self) -> bool:
        """Say whether the controller answers."""
        return "is UP" in self.command("scontrol", "ping", check=False)

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds.

        Raises:
            AssertionError: it does not within a minute.
        """
        until_s = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < until_s, f"waited for {what}; {self.log()}"
            time.sleep(0.02)

    def log(self) -> str:
        """Return the last lines of each daemon's log."""
        paths = sorted((self.folder / "log").iterdir())
        return "\n".join(line for path in paths for line in path.read_text().splitlines()[-3:])

    def _lay_out(self) -> None:
        for name in ("etc", "state", "log", "run", "munge", "out", "spool"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "munge").chmod(0o711)
        host = socket.gethostname().partition(".")[0]
        lines, gres = [], []
        for number, node in enumerate(self.nodes):
            for gpu in range(node.gpus):
                make_device(self.folder / "dev" / node.name / f"nvidia{gpu}")
            (self.folder / "spool" / node.name).mkdir()
            facts = {
                "name": node.name,
                "gpu_type": node.gpu_type,
                "gpus": node.gpus,
                "features": node.features,
                "last": node.gpus - 1,
                "host": host,
                "port": self.first_port + 1 + number,
                "memory_mb": MEMORY_MB,
                "folder": self.folder,
            }
            lines.append(NODE_LINE.format_map(facts))
            gres.append(GRES_LINE.format_map(facts))
        names = [node.name for node in self.nodes]
        parts = {
            "names": ",".join(names),
            "first_two": ",".join(names[:2]),
            "third": names[2],
            "others": ",".join(names[2:]),
        }
        text = CONFIGURATION.format(
            host=host, port=self.first_port, folder=self.folder, nodes="\n".join(lines), **parts
        )
        self.conf.write_text(text)
        (self.folder / "etc" / "gres.conf").write_text("\n".join(gres) + "\n")
        (self.folder / "etc" / "topology.conf").write_text(TOPOLOGY.format_map(parts))
        # Where it is asked for at all, it must not look for systemd.
        (self.folder / "etc" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def _start_munged(self) -> None:
        there = self.folder / "munge"
        key = there / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        options = {
            "key-file": key,
            "socket": there / "socket",
            "pid-file": self.folder / "run" / "munged.pid",
            "log-file": self.folder / "log" / "munged.log",
            "seed-file": there / "seed",
        }
        # --force: the folder above ours may be one that everybody writes to, such as /tmp.
        words = [f"--{name}={path}" for name, path in options.items()]
        self._start("munged", ("munged", "--foreground", "--force", *words))
        self.wait_for((there / "socket").exists, "the socket of munged")

    def _start(self, name: str, words: Sequence[str]) -> None:
        assert name not in self._running, f"{name} runs already"
        with (self.folder / "log" / f"{name}.out").open("ab") as out:
            self._running[name] = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.environment,
                start_new_session=True,
            )

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._running.pop(name)
        process.send_signal(how)
        try:
            process.wait(PATIENCE_S / 4)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _jobs_processes(self) -> list[int]:
        """Return the processes that have the SLURM_CONF of this bench: of its jobs."""
        mark = f"SLURM_CONF={self.conf}".encode()
        found = []
        for path in sorted(Path("/proc").iterdir()):
            if path.name.isdigit():
                with suppress(OSError):
                    if mark in (path / "environ").read_bytes().split(b"\0"):
                        found.append(int(path.name))
        return found


@contextmanager
def bench_at(folder: Path, nodes: tuple[BenchNode, ...] = NODES) -> Iterator[SlurmBench]:
    """Open a bench of three nodes or more below a folder, and take it down again.

    One that does not come up, as on a machine that is full for a minute, is started once more.
    """
    bench = SlurmBench(folder, free_ports(1 + len(nodes)), nodes)
    try:
        try:
            bench.start()
        except (AssertionError, subprocess.TimeoutExpired):
            bench.close()
            bench = SlurmBench(folder / "again", free_ports(1 + len(nodes)), nodes)
            bench.start()
        yield bench
    finally:
        bench.close()


def free_ports(count: int) -> int:
    """Return the first of so many free ports in a row, elsewhere for each worker of xdist."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for first in range(17_000 + 100 * worker, 17_000 + 100 * (worker + 1) - count, count):
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError(f"no {count} free ports in a row for worker {worker}")


def is_free(port: int) -> bool:
    """Say whether nobody listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def make_device(path: Path) -> None:
    """Make a character device that is like /dev/null: Slurm takes no plain file for a GPU."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
