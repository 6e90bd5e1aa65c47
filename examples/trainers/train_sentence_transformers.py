"""Sentence Transformers: embeddings that learn which sentences belong together.

Run it by `python examples/trainers/train_sentence_transformers.py`.
"""

import math

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.models import Dropout, StaticEmbedding
from sentence_transformers.training_args import BatchSamplers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import TrainerCallback

from shunter.train import check
from shunter.train.adapters.huggingface import last, suspension


class Shown(SentenceTransformerTrainer):
    def training_step(self, model, inputs, *words, **more):
        loss = super().training_step(model, inputs, *words, **more)
        shown = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        self.shown = (shown, loss)
        return loss


class Shows(TrainerCallback):
    def on_step_end(self, arguments, state, control, **more):
        batch, loss = trainer.shown
        check.saw(math.ceil(state.epoch) - 1, batch=batch, loss=loss)

    def on_prediction_step(self, arguments, state, control, **more):
        check.evaluating()


def pairs(count):
    asked = [f"w{row % 30} w{row * 7 % 30} w{row * 11 % 30}" for row in range(count)]
    meant = [f"w{row % 30} w{row * 13 % 30}" for row in range(count)]
    return Dataset.from_dict({"anchor": asked, "positive": meant})


def tokenizer():
    words = {word: at for at, word in enumerate(["<unknown>", *(f"w{n}" for n in range(30))])}
    found = Tokenizer(models.WordLevel(words, unk_token="<unknown>"))
    found.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(3)
    embedding = StaticEmbedding(tokenizer(), embedding_dim=16)
    model = SentenceTransformer(modules=[embedding, Dropout(0.2)], device="cpu")
    arguments = SentenceTransformerTrainingArguments(
        output_dir="output",
        num_train_epochs=3,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        warmup_steps=5,
        batch_sampler=BatchSamplers.NO_DUPLICATES,
        eval_strategy="epoch",
        save_strategy="no",  # the adapter asks for a checkpoint when it leaves
        dataloader_num_workers=check.workers(0),
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=5,
    )
    trainer = Shown(
        model=model,
        args=arguments,
        train_dataset=pairs(56),
        eval_dataset=pairs(8),
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[Shows(), suspension()],
    )
    trainer.train(resume_from_checkpoint=last(arguments.output_dir))
