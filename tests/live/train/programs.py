"""What live tests train: programs that print a line for each mini-batch and ask to be suspended."""

from tests.docs.pages import ROOT, page_of

__all__ = ["ASKS", "LIGHTNING", "LOOP", "of_how_to"]

ASKS = 'open(os.environ["SHUNTER_SUSPEND"], "w").close()'
"""How they ask, in place of the supervisor: see `attempts`, and `served` for real suspensions."""

LOOP = """
import functools, hashlib, os, random, sys
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
def digest(tensor):
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:16]
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
        print("step", run.steps_done + 1, loss.item().hex(), digest(batch), flush=True)
        if run.steps_done + 1 == int(os.environ["STOP_AT"]):
            open(os.environ["SHUNTER_SUSPEND"], "w").close()
        run.step()
print("step weights", *map(digest, model.state_dict().values()))
"""

LIGHTNING = """
import hashlib, json, os, random, sys
import numpy as np
import torch
options = json.loads(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(int(os.environ["SEED"]))
if options.get("package") == "pytorch_lightning":
    import pytorch_lightning as lightning
else:
    import lightning.pytorch as lightning
from torch.utils.data import DataLoader, Dataset

def digest(tensor):
    return hashlib.sha256(tensor.detach().numpy().tobytes()).hexdigest()[:16]

class Noisy(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.full((8,), index / 24) + 0.1 * torch.randn(8)

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))
        self.average = torch.nn.Linear(8, 16)
        self.register_buffer("table", torch.zeros(options.get("megabytes", 0) * 250_000))
    def on_train_start(self):
        torch.randn(3)  # whatever a script draws before its first batch
    def on_train_epoch_start(self):
        torch.randn(int(self.current_epoch) + 1)
    def training_step(self, batch, index):
        loss = (self.layers(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.seen = index
        self.loss = loss
        return loss
    def on_train_batch_end(self, outputs, batch, index):
        with torch.no_grad():  # an average of weights, after the callbacks
            self.average.weight.lerp_(self.layers[0].weight, 0.1)
        said = [self.current_epoch, index, self.loss.item().hex(), digest(batch),
                self.average.weight.sum().item().hex()]
        step = self.current_epoch * len(self.trainer.train_dataloader) + index + 1
        print("step", step, *said, flush=True)
        if step == int(os.environ["STOP_AT"]):
            open(os.environ["SHUNTER_SUSPEND"], "w").close()
    def validation_step(self, batch, index):
        loss = (self.layers(batch) - 1 + torch.randn(1)).square().mean()
        self.log("validated", loss)
    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            value = self.trainer.callback_metrics["validated"].item().hex()
            print("step validated", self.current_epoch, value, flush=True)
    def on_train_epoch_end(self):
        print("step epoch", self.current_epoch, flush=True)
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [
            torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.cos(step / 9))]

workers = options.get("workers", 0)
def loader(shuffle):
    return DataLoader(Noisy(), batch_size=4, shuffle=shuffle, num_workers=workers)
callbacks, resume_path = [], None
if "SHUNTER_CHANNEL" in os.environ:
    from shunter.train.adapters.lightning import suspension
    callback = suspension()
    callbacks, resume_path = [callback], callback.resume_path
torch.manual_seed(3 if resume_path is None else int(os.environ["SEED"]))
plugins = []
if options.get("megabytes"):
    from lightning.pytorch.plugins.io import AsyncCheckpointIO
    plugins = [AsyncCheckpointIO()]
trainer = lightning.Trainer(plugins=plugins,
    max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, callbacks=callbacks,
    **options.get("trainer", {}))
model = Model()
trainer.fit(model, loader(True), loader(False), ckpt_path=resume_path)
print("step weights", *map(digest, model.state_dict().values()))
"""

WATCHED = f"""
import hashlib, os, sys
from shunter import train
from shunter.train.run import Run
def boundary(run, counted=Run.boundary):
    digests = [hashlib.sha256(each.tobytes()).hexdigest()[:16] for each in arrays()]
    # After a bar of progress, and in one piece: Keras draws that in a thread.
    sys.stdout.write(" ".join(["\\nstep", str(run.steps_done + 1), *digests]) + "\\n")
    sys.stdout.flush()
    if run.steps_done + 1 == int(os.environ["STOP_AT"]):
        {ASKS}
    return counted(run)
Run.boundary = boundary
"""
"""Lets each step of a program print what `arrays()` holds, and ask."""

GIVEN = {
    "DataLoader": """
import torch
torch.set_num_threads(1)
torch.manual_seed(int(os.environ["SEED"]))
data = torch.utils.data.TensorDataset(torch.arange(48.0).reshape(12, 4) / 48, torch.ones(12, 1))
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
validation = torch.utils.data.DataLoader(data, batch_size=6)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
def arrays():
    return [each.numpy() for each in model.state_dict().values()]
""",
    "keras": """
import keras
import numpy as np
keras.utils.set_random_seed(int(os.environ["SEED"]))
x = np.random.RandomState(0).rand(16, 4).astype("float32")
y = x.sum(1, keepdims=True)
inner = keras.Sequential([keras.layers.Dense(8), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
model = keras.Sequential([keras.Input((4,)), keras.layers.GaussianNoise(0.1), inner])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
def arrays():
    getattr(model, "jax_state_sync", lambda: None)()
    return [keras.ops.convert_to_numpy(each) for each in model.variables]
""",
    "orbax": """
import jax.numpy as jnp
import numpy as np
np.random.seed(int(os.environ["SEED"]))
state = {"weights": jnp.zeros(4), "table": jnp.zeros(30_000_000)}
def trained(state):
    return {**state, "weights": state["weights"] * 1.1 + np.random.rand(4)}
def arrays():
    return [np.asarray(state["weights"])]
""",
}


def of_how_to(library: str) -> str:
    """Return the program of the how-to that uses a library, with what it takes as given."""
    path = ROOT / "docs" / "how-to" / "make-a-job-suspendable.md"
    blocks = page_of(path, path.read_text(encoding="utf-8")).blocks
    (text,) = [each.text for each in blocks if each.language == "python" and library in each.text]
    return (
        WATCHED
        + GIVEN[library]
        + text
        + 'print("\\nstep end", *[each.sum() for each in arrays()])\n'
    )
