"""transformers: a tiny BERT that learns to sort sentences, with dropout, a schedule, accumulation.

Run it by `python examples/trainers/train_transformers.py`; with `noisy 0` its data set draws at
random, in 0 workers.
"""

import math
import sys

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from shunter.train import check
from shunter.train.adapters.huggingface import last, suspension

IS_NOISY = "noisy" in sys.argv


class Sentences(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        noise = int(torch.randint(30, ())) if IS_NOISY else 0
        words = [(7 * index + place + noise) % 30 for place in range(6)]
        return {"input_ids": torch.tensor(words), "labels": torch.tensor(index % 2)}


class Shown(Trainer):
    def training_step(self, model, inputs, *words, **more):
        loss = super().training_step(model, inputs, *words, **more)
        self.shown = (inputs["input_ids"], loss)
        return loss


class Shows(TrainerCallback):
    def on_step_end(self, arguments, state, control, **more):
        batch, loss = trainer.shown
        check.saw(math.ceil(state.epoch) - 1, batch=batch, loss=loss)

    def on_prediction_step(self, arguments, state, control, **more):
        check.evaluating()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(3)  # the Trainer sets its own for order and dropout
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=30,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=8,
            hidden_dropout_prob=0.2,
        )
    )
    arguments = TrainingArguments(
        output_dir="output",
        num_train_epochs=3,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        lr_scheduler_type="cosine",
        eval_strategy="epoch",
        save_strategy="no",  # the adapter asks for a checkpoint when it leaves
        dataloader_num_workers=int(sys.argv[2]) if IS_NOISY else check.workers(0),
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=5,
    )
    trainer = Shown(
        model=model,
        args=arguments,
        train_dataset=Sentences(56),
        eval_dataset=Sentences(16),
        callbacks=[Shows(), suspension()],
    )
    trainer.train(resume_from_checkpoint=last(arguments.output_dir))
