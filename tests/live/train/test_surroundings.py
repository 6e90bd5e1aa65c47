"""What the SDK warns of, each with the library that it is about."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make live does it")

from tests.live.train.attempts import OFFLINE
from tests.unit.train.toy import Supervisor

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("surroundings")]

LOOP = """
from shunter import train
import torch
from torch.utils.data import DataLoader, TensorDataset
def main(options, takes):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2, shuffle=True, **options)
    run = train.start(model=model, optimizer=optimizer)
    for epoch in run.epochs(2):
        for (batch,) in run.batches(loader) if takes else loader:
            optimizer.zero_grad(); model(batch).mean().backward(); optimizer.step()
            run.step()
"""
LIGHTNING = """
from shunter import train
import torch, lightning.pytorch as lightning
from torch.utils.data import DataLoader
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
class Steps(lightning.Callback):
    def on_train_batch_end(self, *_):
        run.step()
model = Model()
run = train.start(model=model)
def fit(*callbacks):
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[*callbacks])
    trainer.fit(model, DataLoader(torch.ones(16, 4), batch_size=4, shuffle=True))
"""
TRAINER = """
from shunter.train.adapters.huggingface import suspension
import torch
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        return {"loss": self.layer(x).square().mean()}
data = [{"x": torch.ones(4), "labels": torch.ones(1)} for _ in range(8)]
def fit(**options):
    arguments = TrainingArguments("out", max_steps=6, report_to=[], save_strategy="no",
        disable_tqdm=True, use_cpu=True, logging_strategy="no", **options)
    Trainer(Model(), arguments, train_dataset=data, callbacks=[suspension()]).train()
"""
ADAPTED = "from shunter.train.adapters.lightning import suspension; fit(suspension())"
CASES = {
    "a loop over run.batches": (LOOP + "main({}, True)", []),
    "a loop over the loader": (LOOP + "main({}, False)", ["`loader` is a DataLoader"]),
    "workers that outlive an epoch": (
        LOOP + "main({'num_workers': 1, 'persistent_workers': True}, True)",
        ["workers outlive an epoch"],
    ),
    "Lightning without the adapter": (
        LIGHTNING + "fit(Steps())",
        ["Lightning trains without Shunter's adapter"],
    ),
    "Lightning with the adapter": (LIGHTNING + ADAPTED, []),
    "the Trainer": (TRAINER + "fit()", []),
    "the Trainer that saves just in time": (
        TRAINER + "fit(enable_jit_checkpoint=True)",
        ["enable_jit_checkpoint"],
    ),
}


@pytest.mark.parametrize(("text", "warnings"), CASES.values(), ids=CASES)
def test_library_is_warned_of_once_and_only_where_it_has_to_be(
    tmp_path: Path, text: str, warnings: list[str]
) -> None:
    with Supervisor(tmp_path / "attempt") as supervisor:
        told = {**supervisor.environment(tmp_path / "checkpoints"), **OFFLINE}
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", text],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **told},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        found = [each["text"] for each in supervisor.told("warned")]
    assert len(found) == len(warnings), found
    assert all(start in text for start, text in zip(warnings, found, strict=True))
    assert ran.stderr.count("shunter: warning: ") == len(warnings)
