"""The hosts of a run, and how each fault is done to them and undone."""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Self

from shunter.backends.node import alive_below
from tests.chaos.history import Freeze
from tests.chaos.scenario import HOSTS, Cluster, Fault
from tests.live.ssh.farm import descendants, name_of, parent_of
from tests.live.ssh.namespaces import Namespaces, run

__all__ = ["Hosts", "fill", "small_disk", "unmount"]

HOST_DISK = "4m"
DAEMON_DISK = "16m"


class Hosts:
    """Three hosts in namespaces; those that are to have a small disk have one."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.freezes: list[Freeze] = []
        self.farm = Namespaces(folder, HOSTS)
        self._disks: list[Path] = []
        self._cluster = cluster
        self._frozen_ns: dict[str, int] = {}
        self._drops = dict.fromkeys(HOSTS, 0)

    def __enter__(self) -> Self:
        try:
            for name in HOSTS:
                if name in self._cluster.small_disks:
                    small_disk(self.farm[name].root, HOST_DISK)
                    self._disks.append(self.farm[name].root)
                self.farm.start(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.farm.close()
        for disk in self._disks:
            unmount(disk)

    def do(self, fault: Fault) -> None:
        """Do a fault; what it needs and is not there is no fault."""
        name, what = fault.whom, fault.what
        if what == "cut":
            self.farm.cut(name)
        elif what == "drop":
            self.farm.drop(name)
            self._drops[name] += 1
        elif what == "fill":
            fill(self.farm[name].root / "filler")
        elif what == "delete":
            self._delete(name, Random(repr(fault)))
        elif self.farm[name].process is not None:
            self._do_to_processes(what, name, Random(repr(fault)))

    def undo(self, fault: Fault) -> None:
        """Undo a fault that lasts; a host comes back with everything undone."""
        name, what = fault.whom, fault.what
        if what == "cut":
            self.farm.heal(name)
        elif what == "drop" and self._drops[name]:
            self.farm.undrop(name)
            self._drops[name] -= 1
        elif what == "freeze":
            self._thaw(name)
        elif what == "power_off" and self.farm[name].process is None:
            self._recover(name)
        elif what == "fill":
            (self.farm[name].root / "filler").unlink(missing_ok=True)

    def recover(self) -> None:
        """Undo whatever is still done."""
        for name in HOSTS:
            self._recover(name)

    def left(self) -> list[str]:
        """Return the processes of jobs that are still there."""
        found = []
        for name, host in self.farm.hosts.items():
            for pid in descendants(host.process.pid) if host.process else ():
                with suppress(OSError):
                    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    job = [each for each in entries if each.startswith(b"SHUNTER_JOB=")]
                    found += [f"{name}: process {pid} of {each[12:].decode()}" for each in job]
        return found

    def _do_to_processes(self, what: str, name: str, chance: Random) -> None:
        if what == "freeze":
            self.farm.freeze(name)
            self._frozen_ns.setdefault(name, time.monotonic_ns())
        elif what == "power_off":
            self._note_thaw(name)
            self.farm.power_off(name)
        elif what == "session":
            self._end_sessions(name)
        elif what == "supervisor":
            found = self._supervisors(name)
            if found:
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(found), signal.SIGKILL)

    def _recover(self, name: str) -> None:
        self.farm.heal(name)
        while self._drops[name]:
            self.farm.undrop(name)
            self._drops[name] -= 1
        (self.farm[name].root / "filler").unlink(missing_ok=True)
        if self.farm[name].process is None:
            self.farm.start(name)
        else:
            self._thaw(name)

    def _thaw(self, name: str) -> None:
        self._note_thaw(name)
        if self.farm[name].process is not None:
            self.farm.thaw(name)

    def _note_thaw(self, name: str) -> None:
        from_ns = self._frozen_ns.pop(name, None)
        if from_ns is not None:
            self.freezes.append(Freeze(name, from_ns, time.monotonic_ns()))

    def _end_sessions(self, name: str) -> None:
        """End all connections to a host, and leave it listening."""
        process = self.farm[name].process
        assert process is not None, f"{name} does not run"
        for pid in descendants(process.pid):
            if name_of(pid).startswith("sshd") and name_of(parent_of(pid)).startswith("sshd"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _supervisors(self, name: str) -> list[int]:
        """Return the processes that look after attempts, known by the locks they hold."""
        roots = sorted(self.farm[name].root.glob("clusters/*"))
        alive = [each for root in roots for each in alive_below(str(root)).values()]
        return sorted(pid for each in alive for pid in each.supervisors)

    def _delete(self, name: str, chance: Random) -> None:
        """Remove the folder of an attempt, as one who tidies a scratch disk does."""
        found = sorted(self.farm[name].root.glob("clusters/*/jobs/*/[0-9]*"))
        if found:
            shutil.rmtree(chance.choice(found), ignore_errors=True)


def small_disk(folder: Path, size: str = DAEMON_DISK) -> None:
    """Put a small disk where a folder is."""
    run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "small", str(folder))


def unmount(disk: Path) -> None:
    """Take a small disk away again, and keep what was on it under another name."""
    (disk / "filler").unlink(missing_ok=True)
    kept = disk.with_name(f"{disk.name}.kept")
    shutil.copytree(disk, kept, symlinks=True, ignore=_special_files)
    run("umount", "-l", str(disk), check=False)


def _special_files(folder: str, names: list[str]) -> list[str]:
    paths = [Path(folder) / name for name in names]
    return [path.name for path in paths if not (path.is_file() or path.is_dir())]


def fill(path: Path) -> None:
    """Write until a disk is full, down to the last byte."""
    with suppress(OSError), path.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"0" * size):
                    continue
