"""The adapter for Hugging Face's Trainer, with transformers: suspended, nothing is lost."""

from pathlib import Path

import pytest

from tests.live.train.attempts import attempts, undisturbed

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("huggingface")]

LIBRARY = "transformers.trainer"
SCRIPT = """
import json, os, sys
import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification
from transformers import Trainer, TrainerCallback, TrainingArguments
options = json.loads(sys.argv[1])
torch.set_num_threads(1)

class Sentences(Dataset):
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        words = [(7 * index + place) % 30 for place in range(6)]
        return {"input_ids": torch.tensor(words), "labels": torch.tensor(index % 2)}

class Told(Trainer):
    def training_step(self, *words, **more):
        self.loss = super().training_step(*words, **more)
        self.losses = getattr(self, "losses", []) + [self.loss.item().hex()]
        return self.loss

class Asks(TrainerCallback):
    def on_step_end(self, arguments, state, control, **more):
        print("step", state.global_step, *trainer.losses, flush=True)
        trainer.losses = []
        if state.global_step == int(os.environ["STOP_AT"]):
            open(os.environ["SHUNTER_SUSPEND"], "w").close()
    def on_evaluate(self, arguments, state, control, metrics, **more):
        print("step evaluated", state.global_step, metrics["eval_loss"].hex(), flush=True)

torch.manual_seed(3)  # the Trainer sets its own for order and dropout
model = BertForSequenceClassification(BertConfig(
    vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=8, hidden_dropout_prob=0.2))
arguments = TrainingArguments(
    output_dir="output", num_train_epochs=3, per_device_train_batch_size=4, learning_rate=1e-2,
    save_strategy="no", logging_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    seed=5, **options)
callbacks, resume = [Asks()], None
if "SHUNTER_CHANNEL" in os.environ:
    from shunter.train.adapters.huggingface import last, suspension
    callbacks.append(suspension())
    resume = last(arguments.output_dir)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.cos(step / 9))
trainer = Told(model=model, args=arguments, train_dataset=Sentences(24),
               eval_dataset=Sentences(8), callbacks=callbacks,
               optimizers=(optimizer, schedule))
trainer.train(resume_from_checkpoint=resume)
"""


@pytest.mark.rotating("options", "stops")
@pytest.mark.parametrize(
    ("options", "stops"),
    [
        # The second is the last of an epoch, after which comes an evaluation.
        ('{"eval_strategy": "epoch", "dataloader_num_workers": 2}', (2, 6, 9)),
        ('{"eval_strategy": "steps", "eval_steps": 2, "gradient_accumulation_steps": 2}', (2, 4)),
    ],
)
def test_losses_order_and_evaluations_are_those_of_an_undisturbed_run(
    tmp_path: Path, options: str, stops: tuple[int, ...]
) -> None:
    expected = undisturbed(tmp_path / "whole", LIBRARY, SCRIPT, options)
    found = attempts(tmp_path / "cut", LIBRARY, SCRIPT, options, stops=stops)
    assert len(expected) > 9
    assert found == expected
