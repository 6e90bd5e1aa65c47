"""A loop of the script's own, over whatever it may take batches from: exact, or refused at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make live does it")

from tests.live.train.attempts import attempts, undisturbed

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("loops")]

SCRIPT = """
import functools, os, random, sys
from shunter import train
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler
kind = sys.argv[1]
torch.set_num_threads(1)
seed = int(os.environ["SEED"])
torch.manual_seed(seed); np.random.seed(seed); random.seed(seed)
# What nobody but the checkpoint carries over begins otherwise in each attempt.
order, other = torch.Generator().manual_seed(seed), random.Random(seed)
own = np.random.default_rng(seed)

class Plain(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.full((4,), index / 24) + 0.1 * torch.randn(4)
class Drawn(Plain):
    def __init__(self):
        self.options = {"noise": np.random.default_rng(seed)}
    def __getitem__(self, index):
        return torch.full((4,), index / 24) + 0.1 * float(self.options["noise"].normal())
class Order(Sampler):
    def __init__(self):
        self.chance = np.random.default_rng(seed)
    def __len__(self):
        return 24
    def __iter__(self):
        return iter(self.chance.permutation(24).tolist())
class Stream(IterableDataset):
    def __init__(self):
        self.chance = random.Random(seed)
    def __iter__(self):
        for index in range(24):
            yield torch.full((4,), index + self.chance.random())
def noisy(batch):
    return batch + float(own.normal())
def collated(samples, chance):
    return torch.stack(samples) + chance.random()
def batches_of(loader):
    for batch in loader:
        yield noisy(batch)
def loader(data=None, **options):
    data = Plain() if data is None else data
    is_ordered = isinstance(data, IterableDataset) or "sampler" in options
    shuffled = {} if is_ordered else {"shuffle": True}
    return DataLoader(data, batch_size=4, **{**shuffled, **options})

plain, ordered = loader(), loader(generator=order)
workers = loader(generator=order, num_workers=2)
if kind == "stateful":
    from torchdata.stateful_dataloader import StatefulDataLoader
    stateful = StatefulDataLoader(Plain(), batch_size=4, shuffle=True, generator=order)
if kind == "tqdm":
    from tqdm import tqdm
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
run = train.start(model=model, optimizer=optimizer)
LOOPS = {
    "plain": lambda: run.batches(plain),
    "workers": lambda: run.batches(workers),
    "own generator": lambda: run.batches(ordered),
    "stateful": lambda: run.batches(stateful),
    "iterable": lambda: run.batches(streamed),
    "iterable with workers": lambda: run.batches(streaming),
    "zip": lambda: (a + b for a, b in zip(run.batches(plain), run.batches(ordered))),
    "zip of named": lambda: (
        a + b for a, b in zip(run.batches(plain, "a"), run.batches(ordered, "b"))),
    "zip within": lambda: run.batches(zip(plain, ordered)),
    "enumerate": lambda: (batch for _, batch in enumerate(run.batches(workers))),
    "enumerate within": lambda: run.batches(enumerate(workers)),
    "map": lambda: map(lambda batch: batch * 2, run.batches(ordered)),
    "map within": lambda: run.batches(map(noisy, ordered)),
    "iterator within": lambda: run.batches(iter(ordered)),
    "tqdm": lambda: run.batches(tqdm(ordered, disable=True)),
    "tqdm around": lambda: tqdm(run.batches(ordered), disable=True),
    "tqdm of enumerate": lambda: run.batches(tqdm(enumerate(ordered), disable=True)),
    "generator": lambda: run.batches(batches_of(ordered)),
    "generator expression": lambda: run.batches(noisy(batch) for batch in ordered),
    "drawn in a data set": lambda: run.batches(drawn),
    "drawn in a data set with workers": lambda: run.batches(drawing),
    "drawn in a sampler": lambda: run.batches(sampled),
    "drawn in a collator": lambda: run.batches(collating),
}
if kind == "tqdm around" or kind == "tqdm of enumerate":
    from tqdm import tqdm
drawn, drawing = loader(Drawn()), loader(Drawn(), num_workers=2)
sampled = loader(sampler=Order())
streamed, streaming = loader(Stream()), loader(Stream(), num_workers=2)
collating = loader(collate_fn=functools.partial(collated, chance=other))
for epoch in run.epochs(3):
    for batch in LOOPS[kind]():
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        print("step", run.steps_done + 1, loss.item().hex(), flush=True)
        if run.steps_done + 1 == int(os.environ["STOP_AT"]):
            open(os.environ["SHUNTER_SUSPEND"], "w").close()
        run.step()
"""
IN_CI = ["workers", "zip of named", "tqdm", "generator", "drawn in a data set"]
MORE = [
    "plain",
    "own generator",
    "stateful",
    "iterable",
    "iterable with workers",
    "enumerate",
    "map",
    "tqdm around",
    "drawn in a data set with workers",
    "drawn in a sampler",
    "drawn in a collator",
]
THOROUGH = pytest.mark.thorough
REFUSED = {
    "zip": "ValueError: run.batches is asked for two loaders at a time: name each",
    "zip within": "as in `zip(..., run.batches(loader))`",
    "enumerate within": "as in `enumerate(..., run.batches(loader))`",
    "map within": "as in `map(..., run.batches(loader))`",
    "iterator within": "iterate over run.batches(loader)",
    "tqdm of enumerate": "as in `enumerate(..., run.batches(loader))`",
    "generator expression": "iterate over run.batches(loader)",
}


@pytest.mark.parametrize("kind", [*IN_CI, *(pytest.param(kind, marks=THOROUGH) for kind in MORE)])
def test_losses_and_order_are_those_of_an_undisturbed_run(tmp_path: Path, kind: str) -> None:
    if kind == "stateful":
        pytest.importorskip("torchdata", reason="torchdata is not installed")
    expected = undisturbed(tmp_path / "whole", "torch", SCRIPT, kind)
    found = attempts(tmp_path / "cut", "torch", SCRIPT, kind, stops=(2, 9))
    assert len(expected) >= 18
    assert found == expected


@THOROUGH
@pytest.mark.parametrize("kind", list(REFUSED))
def test_what_could_not_go_on_is_refused_at_the_first_call(tmp_path: Path, kind: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind],
        env={**os.environ, "SEED": "1", "STOP_AT": "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert REFUSED[kind] in ran.stderr
    assert "step" not in ran.stdout
