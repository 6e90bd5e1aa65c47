"""What a host has: GPUs and their wiring, CPUs, memory, clock, disks, and what would end jobs.

    python3 -I -S FILE survey BASE CGROUP NONCE

GPUs are asked for in a process of their own (host/gpus.py), since a driver in trouble may never
answer; how they are wired says host/wiring.py.
"""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import sys
import time

from shunter.backends.node.host.gpus import gpus_command, gpus_in, said_by
from shunter.backends.node.host.wiring import sockets, wiring_of
from shunter.backends.node.ownership import NETWORKED, is_networked
from shunter.backends.node.shares import means_of, memory_group


def host_inventory(base: str, group: str, nonce: str) -> dict[str, object]:
    """Return all that an operator wants to know of a host."""
    base = os.path.expanduser(base)
    limited, unlimited = memory_group(group, prepare=False)
    said, silence = said_by(gpus_command())
    seen = gpus_in("" if silence else said)
    lost = [gpu for gpu in seen.gpus if not gpu.uuid]
    gpus = [{**gpu, "name": gpu.name or "GPU"} for gpu in seen.gpus if gpu.uuid]
    found = {
        "wall_s": time.time(),
        "host": platform.node(),
        "python": list(sys.version_info[:3]),
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "uid": os.geteuid(),
        "gpus": gpus,
        "gpus_lost": lost,
        "gpus_by": seen.by,
        "gpu_code": seen.code,
        "gpu_said": silence or seen.said,
        "wiring": wiring_of(seen.gpus),
        "cpus": sorted(os.sched_getaffinity(0)),
        "sockets": sockets(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "memory_group": limited,
        "memory_unlimited": unlimited,
        "shares": means_of(limited, is_divided=False).words,
        "free_mb": shutil.disk_usage(_existing(base)).free // 1_000_000,
        "is_networked": is_networked(os.path.abspath(base)),
        "is_open": _is_open(base),
        "shared": _shared_folders(),
        "ends_sessions": _ends_sessions(),
    }
    sys.stdout.write(f"\n{nonce} ")
    return found


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
    said, _ = said_by(["loginctl", "show-session", "--property=KillUserProcesses", "self"])
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
