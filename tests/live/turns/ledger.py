"""Jobs that take turns, and note what they do: in a ledger below a folder.

Each holds a lock of its own for as long as it runs; who finds it taken notes a double. During each
mini-batch it holds one of itself on the GPU of its turn, and notes who else does there.
"""

import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import shunter
from shunter.daemon import Submission
from shunter.events import JobSpec
from tests.faults.supervised import wait_for

IS_HELD = """
import fcntl, os, struct
def is_held(path):
    # By lockf, and by one that does not stand still: who knows no boundary yet is stopped within a
    # mini-batch. It is only looked at, for to lock it would be in the way of its owner.
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    answer = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
    os.close(file)
    kind, _, _, _, owner = struct.unpack("hhqqi4x", answer)
    return kind != fcntl.F_UNLCK and not stands_still(owner)
EXITING = 4  # PF_EXITING of Linux: it was killed and does nothing more, but has not let go yet
def stands_still(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            words = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return pid > 0  # it has just ended; on another machine it has no number here
    return words[0] in "TXZ" or bool(int(words[6]) & EXITING)
"""
PROGRAM = f"""{IS_HELD}
import sys, time
package, folder = sys.argv[1:]
sys.path.insert(0, package)
from shunter import train
job = os.environ["SHUNTER_JOB"]
def note(*words):
    ledger = os.open(folder + "/ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(ledger, (" ".join((job, os.environ["SHUNTER_ATTEMPT"]) + words) + "\\n").encode())
    os.close(ledger)
def opened(name):
    return os.open(folder + "/" + name, os.O_RDWR | os.O_CREAT, 0o644)
def on_gpu(gpu):
    held = opened("gpu." + gpu + "." + job)
    fcntl.lockf(held, fcntl.LOCK_EX)
    for name in os.listdir(folder):
        other = name.rpartition(".")[2]
        if name.startswith("gpu." + gpu + ".") and other != job and is_held(folder + "/" + name):
            note("beside", other)
    return held
try:
    fcntl.flock(opened("job." + job), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    note("double")
train.device(moves=True)
run = train.start(move=lambda device: None)
note("begun")
while not os.path.exists(folder + "/enough"):
    held = on_gpu(run.device)
    time.sleep(0.02)
    os.close(held)
    note("batch")
    run.step()
"""


def noting(root: Path, key: str) -> Submission:
    """Return a job of one GPU that trains until there is enough."""
    package = str(Path(shunter.__file__).parents[1])
    command = (sys.executable, "-I", "-S", "-c", PROGRAM, package, str(root))
    return Submission(JobSpec(command=command, gpus=1, retries=9), {}, key)


def ledger(root: Path) -> list[list[str]]:
    """Return what jobs have noted: job, attempt, what."""
    path = root / "ledger"
    return [each.split() for each in path.read_text().splitlines()] if path.exists() else []


def batches_in(root: Path) -> Counter[str]:
    """Return how many mini-batches each job has done."""
    return Counter(job for job, _, what, *_ in ledger(root) if what == "batch")


def doubles_in(root: Path, packs: Collection[frozenset[str]] = frozenset()) -> list[list[str]]:
    """Return what ran twice, or beside another on one GPU with which it was never packed."""
    return [
        line
        for line in ledger(root)
        if line[2] == "double"
        or (line[2] == "beside" and frozenset((line[0], line[3])) not in packs)
    ]


def beside_in(root: Path) -> int:
    """Return in how many mini-batches another job was on the same GPU."""
    return sum(what == "beside" for _, _, what, *_ in ledger(root))


def goes_on(root: Path, *jobs: str) -> None:
    """Wait until each of some jobs has done more mini-batches."""
    before = batches_in(root)
    wait_for(
        lambda: all(batches_in(root)[job] > before[job] for job in jobs),
        f"mini-batches of {', '.join(jobs)}",
        lambda: f"{before} and then {batches_in(root)}",
    )
