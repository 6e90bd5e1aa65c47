"""The jobs: they work in steps, save what they have done, and bear witness of all of it.

Each process writes a line for whatever it does into a file of its own, in a folder that is on no
host's disk and that no fault touches: when it began and from which step, each step, each checkpoint
before and after it counts, and its end. It also holds a lock for its rank and for each GPU it was
given, and whoever finds one taken notes by whom. What it has done is a chain of numbers, so that a
checkpoint that is damaged or somebody else's is told from a good one.
"""

import json
import sys
from pathlib import Path

from tests.chaos.scenario import JobPlan

__all__ = ["command_of"]

ROOT = Path(__file__).parents[2]

WITNESS = """
import fcntl, json, os, signal, sys, time
said = json.loads(sys.argv[1])
env = os.environ
job, attempt, rank = env["SHUNTER_JOB"], int(env["SHUNTER_ATTEMPT"]), int(env["RANK"])
node, place = env["SHUNTER_NODE"], env["SHUNTER_CHECKPOINT_DIR"]
gpus = [each for each in env["CUDA_VISIBLE_DEVICES"].split(",") if each]
me = "%s.%d.%d.%s" % (job, attempt, rank, node)
def opened():
    name = "%s/%s.%d" % (said["folder"], me, os.getpid())
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
file = opened()
def note(what, **more):
    line = json.dumps(dict(more, ns=time.monotonic_ns(), what=what)) + "\\n"
    os.write(file, line.encode())
held = []
def hold(name):
    lock = os.open(said["folder"] + "/locks/" + name, os.O_RDWR | os.O_CREAT, 0o666)
    held.append(lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("taken", name=name, by=os.pread(lock, 200, 0).decode())
        return
    os.ftruncate(lock, 0)
    os.pwrite(lock, me.encode(), 0)
def tell(what, **more):
    try:
        channel = os.open(env["SHUNTER_CHANNEL"], os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(channel, json.dumps(dict(more, what=what)).encode() + b"\\n")
    except OSError:
        pass
    os.close(channel)
def after(chain, step):
    return (chain * 1103515245 + step) % (1 << 31)
def chain_at(steps):
    chain = said["seed"]
    for step in range(steps):
        chain = after(chain, step + 1)
    return chain
def begin(step, chain):
    note("begun", step=step, gpus=gpus, world=int(env["WORLD_SIZE"]))
    if chain != chain_at(step):
        note("corrupt", step=step)
    hold("%s.%d" % (job, rank))
    for gpu in gpus:
        hold("gpu.%s.%s" % (node, gpu))
    try:
        os.write(1, b"from %d\\n" % step)  # what `print` cannot write it tries again at the end
    except OSError as error:  # what it prints lies on a disk that may be full
        note("unprinted", error=str(error))
"""
PLAIN = """
path = "%s/rank-%d.json" % (place, rank)
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
step, chain = 0, chain_at(0)
try:
    with open(path) as before:
        saved = json.load(before)
    step, chain = saved["step"], saved["chain"]
except FileNotFoundError:
    pass
begin(step, chain)
def save():
    try:
        os.makedirs(place, exist_ok=True)
        with open(path + ".part", "w") as part:
            json.dump({"step": step, "chain": chain, "pad": "x" * said["pad"]}, part)
        note("saving", step=step)
        os.replace(path + ".part", path)
    except OSError as error:
        note("unsaved", step=step, error=str(error))
        return False
    note("saved", step=step)
    return True
if said["forks"] and os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.close(file)
    file = opened()
    while True:
        note("alive")
        time.sleep(0.05)
told_s = 0.0
while step < said["steps"]:
    time.sleep(said["step_s"])
    step += 1
    chain = after(chain, step)
    note("step", step=step)
    if time.monotonic() - told_s > 1.0:
        told_s = time.monotonic()
        tell("progress", rank=rank, step=step, batch_s=said["step_s"])
    if asked or os.path.exists(env["SHUNTER_SUSPEND"]):
        tell("acknowledged", step=step)
        if save():
            if not rank:
                tell("saved", checkpoint=path, step=step)
            note("left", step=step)
            os._exit(75)
    elif said["every"] and step % said["every"] == 0:
        save()
note("done", step=step)
os._exit(said["code"])
"""
SDK = """
sys.path.insert(0, said["root"])
from shunter import train
class Work:
    def __init__(self):
        self.step, self.chain = 0, chain_at(0)
    def state_dict(self):
        return {"step": self.step, "chain": self.chain, "pad": "x" * said["pad"]}
    def load_state_dict(self, state):
        self.step, self.chain = state["step"], state["chain"]
    def advance(self):
        self.step += 1
        self.chain = after(self.chain, self.step)
work = Work()
def leave():
    note("saved", step=work.step)
    note("left", step=work.step)
    os._exit(75)
try:
    run = train.start(work=work, save_every=said["every"], leave=leave)
    begin(run.steps_done, work.chain)
    while run.steps_done < said["steps"]:
        time.sleep(said["step_s"])
        work.advance()
        note("step", step=work.step)
        run.step()
        parts = (place, attempt, work.step, rank)
        if said["every"] and os.path.exists("%s/attempt-%06d/step-%012d/rank-%d.json" % parts):
            note("saved", step=work.step)
except BaseException as error:
    note("raised", error=repr(error))
    raise
note("done", step=work.step)
sys.exit(said["code"])
"""


def command_of(plan: JobPlan, witnesses: Path, seed: int) -> list[str]:
    """Return the command of a job.

    Args:
        plan: what it is.
        witnesses: the folder of the files in which it says what it does.
        seed: where its chain of numbers begins.
    """
    said = {
        "folder": str(witnesses),
        "steps": plan.steps,
        "step_s": plan.step_s,
        "every": plan.save_every,
        "code": plan.code,
        "forks": plan.kind == "forking",
        "pad": plan.pad_bytes,
        "seed": seed * 1000 + int(plan.key[1:]),
        "root": str(ROOT),
    }
    program = WITNESS + (SDK if plan.kind == "sdk" else PLAIN)
    return [sys.executable, "-I", "-S", "-c", program, json.dumps(said)]
