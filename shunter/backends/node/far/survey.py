"""What a host has: GPUs and their wiring, CPUs, memory, clock, disks, and what would end jobs.

    python3 -I -S FILE survey BASE NONCE

GPUs are those of nvidia-smi, which every driver brings. Sockets come from sysfs, switches from
`nvidia-smi topo -m`: two GPUs that are told to be joined by one bridge at most (PIX), or by NVLink,
are on one switch. Only the standard library of Python 3.8 or later.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH111, PTH112, PTH116, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os
import platform
import pwd
import shutil
import subprocess
import sys
import time
from typing import Any

ASK_S = 20.0
QUERY = "index,uuid,name,memory.total,pci.bus_id"
NETWORKED = ("nfs", "nfs4", "lustre", "ceph", "beegfs", "gpfs", "glusterfs", "cifs", "fuse.sshfs")


def survey(base: str, nonce: str) -> dict[str, Any]:
    """Return all that an operator wants to know of a host."""
    base = os.path.expanduser(base)
    gpus, fault = _gpus()
    found = {
        "wall_s": time.time(),
        "host": platform.node(),
        "python": list(sys.version_info[:3]),
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "uid": os.geteuid(),
        "gpus": gpus,
        "gpu_fault": fault,
        "links": _links(len(gpus)),
        "cpus": sorted(os.sched_getaffinity(0)),
        "sockets": _sockets(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "free_mb": shutil.disk_usage(_existing(base)).free // 1_000_000,
        "is_open": _is_open(base),
        "shared": _shared_folders(),
        "ends_sessions": _ends_sessions(),
    }
    sys.stdout.write(f"\n{nonce} ")
    return found


def _said(command: list[str]) -> tuple[str, str]:
    """Return what a program prints, and why it could not."""
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=False,
        )
    except FileNotFoundError:
        return "", f"{command[0]} is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if ran.returncode:
        return "", (ran.stderr or ran.stdout).strip()[:300] or f"exit code {ran.returncode}"
    return ran.stdout, ""


def _gpus() -> tuple[list[dict[str, Any]], str]:
    said, fault = _said(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"])
    gpus = []
    for line in said.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 5:
            index, uuid, name, memory, bus = parts
            node = _numa_node(bus)
            memory_mb = int(memory) if memory.isdigit() else None
            gpus.append(
                {"index": index, "uuid": uuid, "name": name, "memory_mb": memory_mb, "socket": node}
            )
    return gpus, fault


def _numa_node(bus: str) -> int | None:
    """Return the socket that a GPU hangs on, by its PCI bus id; None if nobody knows."""
    domain, _, rest = bus.lower().partition(":")
    try:
        with open(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node", encoding="ascii") as file:
            node = int(file.read())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _links(count: int) -> list[list[str]]:
    """Return how GPUs are joined, row by row, in the words of nvidia-smi."""
    said, _ = _said(["nvidia-smi", "topo", "-m"]) if count > 1 else ("", "")
    rows = []
    for line in said.splitlines():
        words = line.split()
        if words and words[0].startswith("GPU") and len(words) > count and "X" in words[1:]:
            rows.append(words[1 : 1 + count])
    return rows if len(rows) == count else []


def _sockets() -> int:
    folder = "/sys/devices/system/cpu"
    packages = set()
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            path = f"{folder}/cpu{cpu}/topology/physical_package_id"
            with open(path, encoding="ascii") as file:
                packages.add(file.read().strip())
        except OSError:
            continue
    return max(1, len(packages))


def _existing(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path) or "/"
    return path


def _is_open(path: str) -> bool:
    """Say whether other users can pass through a folder, and all that it lies in."""
    path = _existing(path)
    while path != "/":
        if not os.stat(path).st_mode & 1:
            return False
        path = os.path.dirname(path)
    return True


def _shared_folders() -> list[list[str]]:
    """Return network file systems: where each is mounted, and from where."""
    try:
        with open("/proc/mounts", encoding="utf-8") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return []
    return [[mount[1], mount[0]] for mount in mounts if mount[2] in NETWORKED]


def _ends_sessions() -> bool:
    """Say whether systemd would end what a session leaves behind: our jobs among it."""
    said, _ = _said(["loginctl", "show-session", "--property=KillUserProcesses", "self"])
    paths = ["/etc/systemd/logind.conf"]
    folder = "/etc/systemd/logind.conf.d"
    if os.path.isdir(folder):
        paths += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    setting = ""
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                lines = [line.strip() for line in file]
        except OSError:
            continue
        for line in lines:
            if line.startswith("KillUserProcesses="):
                setting = line.partition("=")[2].lower()
    return setting in ("yes", "true", "1", "on") or "KillUserProcesses=yes" in said
