"""An elastic PyTorch job over torchrun, and how a site gives it one size after the other."""

import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from shunter.daemon import Site, Submission
from shunter.errors import ShunterError
from shunter.events import JobId, JobSpec, Level, Outcome
from tests.live.site.sites import NOBODY, outcome

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
PATIENCE_S = 180.0
STEPS, STEPS_EACH = 60, 10
"""How many steps are trained in all, and at least with each size but the last."""

TORCHRUN = """
exec "$0" -m torch.distributed.run --nnodes "$WORLD_SIZE" --node-rank "$RANK" \\
    --nproc-per-node "$SHUNTER_GPUS" --master-addr "${MASTER:-$MASTER_ADDR}" \\
    --master-port "$MASTER_PORT" "$@"
"""
TRAINS = """
import hashlib, json, os, sys, time
import torch
from torch import distributed
from shunter import train

way, steps, ends = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
distributed.init_process_group("gloo")
rank, world = distributed.get_rank(), distributed.get_world_size()
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
if way == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.randn(256, 8, generator=torch.Generator().manual_seed(1))
wanted = data.pow(2).sum(1, keepdim=True).sqrt()
run = train.start(model=model, optimizer=optimizer, replicated=("model", "optimizer"))

def digest():
    parts = [each.detach().numpy().tobytes() for each in model.parameters()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]

def say(*words):
    if rank == 0:
        print(world, *words, flush=True)

def mean_in_order(indices):
    # Each quarter of the global batch by itself; then all of them, in the order of the quarters.
    parts = []
    for quarter in torch.tensor(indices).split(32 // 4):
        optimizer.zero_grad()
        loss = (model(data[quarter]) - wanted[quarter]).square().mean()
        loss.backward()
        grads = [each.grad.flatten() for each in model.parameters()]
        parts.append(torch.cat([loss.detach().reshape(1), *grads]))
    own = torch.stack(parts)
    every = [torch.empty_like(own) for _ in range(world)]
    distributed.all_gather(every, own)
    total = torch.zeros_like(own[0])
    for part in torch.cat(every):
        total += part / 4
    at = 1
    for each in model.parameters():
        each.grad = total[at:at + each.numel()].reshape(each.shape).clone()
        at += each.numel()
    return total[0]

def mean_by_ddp(indices, weight):
    optimizer.zero_grad()
    loss = (model(data[indices]) - wanted[indices]).square().mean() * weight
    loss.backward()
    loss = loss.detach()
    distributed.all_reduce(loss)
    return loss / world

say("begins", run.steps_done, digest())
for _ in run.epochs(steps):
    shards = run.shards(len(data), 32, seed=7)
    for indices in run.batches(shards):
        loss = mean_in_order(indices) if way == "in_order" else mean_by_ddp(indices, shards.weight)
        optimizer.step()
        say("step", run.steps_done + 1, loss.item().hex(), digest())
        time.sleep(0.02)
        run.step()
        if run.steps_done == steps:
            break
    if run.steps_done == steps:
        break
if rank == 0:
    values = [each.flatten().tolist() for each in model.parameters()]
    open(ends, "w").write(json.dumps(sum(values, [])))
run.finish()
distributed.destroy_process_group()
os._exit(0)  # a thread of gloo may abort an interpreter that ends (PyTorch 2.13)
"""


def training(folder: Path, way: str, steps: int, ends: str) -> list[str]:
    """Return a command that trains: with `ddp` as it is, or summed `in_order`."""
    script = folder / "train.py"
    script.write_text(TRAINS)
    words = [sys.executable, str(script), way, str(steps), str(folder / ends)]
    return ["/bin/sh", "-c", TORCHRUN, *words]


async def assert_trains_in_sizes(
    site: Site, folder: Path, way: str, sizes: Sequence[int], **environment: str
) -> None:
    """Give a job one size after the other; hold it to be the same training throughout.

    Each step is done once, and an attempt begins with the parameters that the one before ended
    with, bit for bit. `MASTER` in the environment takes the place of what others call its server.
    """
    command = tuple(training(folder, way, STEPS, "ends.json"))
    first, most = sizes[0], max(sizes)
    spec = JobSpec(first, command=command, gpus_max=most, max_level=Level.server)
    job_id = await site.submit(Submission(spec, ENVIRONMENT | environment), NOBODY)
    for attempt, gpus in enumerate(sizes[1:], 1):
        until_s = anyio.current_time() + PATIENCE_S
        while len(await _printed(site, job_id, attempt)) < STEPS_EACH:
            assert anyio.current_time() < until_s, await _said(site, job_id, attempt)
            await anyio.sleep(0.1)
        await site.tell(site.commands.resize(job_id, gpus, NOBODY))
    assert await outcome(site, job_id) == Outcome.finished
    told = [await _printed(site, job_id, number) for number in range(1, len(sizes) + 1)]
    print(
        "steps with each size",
        {size: len(words) - 1 for size, words in zip(sizes, told, strict=True)},
    )
    assert [{words[0] for words in each} for each in told] == [{str(size)} for size in sizes]
    steps = [words for each in told for words in each if words[1] == "step"]
    assert [int(words[2]) for words in steps] == list(range(1, STEPS + 1)), "each step once"
    for each in told[1:]:
        begins = each[0]
        assert begins[1] == "begins"
        assert begins[3] == steps[int(begins[2]) - 1][4], "other parameters than were saved"


async def _said(site: Site, job_id: JobId, attempt: int) -> str:
    """Return where a job stands and what went wrong with it, as it says."""
    job = site.state.jobs.get(job_id)
    try:
        said, _ = await site.read_output(job_id, attempt, "stderr.0", 0, 10_000)
    except ShunterError as error:
        return f"{job}\n{error}"
    return f"{job}\n{said.decode()}"


async def _printed(site: Site, job_id: JobId, attempt: int) -> list[list[str]]:
    """Return the words of the whole lines of the first rank; none before it begins."""
    try:
        said, _ = await site.read_output(job_id, attempt, "stdout.0", 0, 1_000_000)
    except ShunterError:
        return []
    return [line.split() for line in said.decode().split("\n")[:-1] if line[:1].isdigit()]
