"""First configs: what all that `shunter init` writes have in common, and one of this machine."""

import json
import os
from pathlib import Path

from shunter.addresses import host_name
from shunter.backends.live import use_told, why_unseen
from shunter.backends.node.host import read_gpus

OPEN_BASE = "/var/lib/shunter"
"""The scheduler's folder where root logs in, whose home is closed to the users of jobs."""

POLICY = """\
[policy]
name = "tiresias"                 # or fifo, las, srtf, gavel: `shunter policy list`
trigger = "event"                 # decide at once; "round" decides every policy.round
[policy.guards]
min_runtime = "1m"                # nobody is preempted before that
"""

LISTEN = 'listen = "unix:"                  # the usual socket; clients find it by themselves'

LOG = f"""\
[server]
{LISTEN}
# admins = ["ana"]                # besides root and whoever runs the daemon

[log]
url = "shunter.db"                # everything that happens, for ever
"""


TEMPLATE = f"""\
# A live cluster of this machine. `shunter config validate FILE` checks it, docs/reference/config.md
# lists every key.

[[cluster.nodes]]
name = "{{name}}"
gpus = {{gpus}}
type = "{{gpu_type}}"
cpus = {{cpus}}
memory_gb = {{memory_gb}}

{POLICY}
[backend]
kind = "local"
[backend.local]
root = "shunter-attempts"         # beside this file: output, checkpoints, supervisors' records
keep = "90d"                      # output of jobs that ended longer ago goes; checkpoints stay

{LOG}"""


def local_config(gpus: int | None, socket: str = "") -> tuple[str, list[str]]:
    """Return a config of this machine, and what is to be said about it.

    Args:
        gpus: how many it has; None: as many as NVML or nvidia-smi sees, with those that are lost,
            since jobs are given GPUs by their numbers.
        socket: where the daemon listens, if not on the usual socket.
    """
    notes = []
    seen = read_gpus()
    found = list(map(use_told, seen["gpus"]))
    if not found and gpus is None:
        why = why_unseen(seen["code"], seen.get("said", ""))
        notes.append(f"no GPU is seen ({why}); --gpus says how many there are")
    if found and gpus is not None and gpus > len(found):
        notes.append(
            f"warning: --gpus {gpus}, and {seen['by']} sees {len(found)}: jobs are given GPUs that "
            "are not there; correct `gpus` in the config, `shunter down`, and `up` again"
        )
    lost = ", ".join(str(gpu.index) for gpu in found if gpu.is_lost)
    if lost and gpus is None:
        notes.append(f"GPU {lost} is lost: it is counted in `gpus`, and takes no jobs meanwhile")
    text = TEMPLATE.format(
        name=host_name(),
        gpus=max((gpu.index + 1 for gpu in found), default=0) if gpus is None else gpus,
        gpu_type="gpu",
        cpus=len(os.sched_getaffinity(0)),
        memory_gb=_memory_gb(),
    )
    if socket:
        text = text.replace(LISTEN, f"listen = {json.dumps(f'unix:{socket}', ensure_ascii=False)}")
    return text, notes


def _memory_gb() -> int:
    """Return the memory of this machine, in whole GB of 1,000 MB."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024 // 1_000_000_000
    return 0
