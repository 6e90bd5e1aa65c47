"""TRL: supervised fine-tuning of a tiny Llama, packed or not.

Run it by `python examples/trainers/train_trl.py`; with `packed` sequences share a row.
"""

import math
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

from shunter.train import check
from shunter.train.adapters.huggingface import last, suspension

WORDS = ["<pad>", "<end>", "<unknown>", *(f"w{number}" for number in range(30))]


class Shown(SFTTrainer):
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


def sentences(count):
    texts = [
        " ".join(f"w{(3 * row + 5 * place) % 30}" for place in range(3 + row % 9))
        for row in range(count)
    ]
    return Dataset.from_dict({"text": texts})


def tokenizer():
    words = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<unknown>")
    )
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=32,
            attention_dropout=0.2,
        )
    )
    arguments = SFTConfig(
        output_dir="output",
        num_train_epochs=3,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        lr_scheduler_type="cosine",
        eval_strategy="epoch",
        save_strategy="no",  # the adapter asks for a checkpoint when it leaves
        packing="packed" in sys.argv,
        max_length=16,
        dataloader_num_workers=check.workers(0),
        bf16=False,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=5,
    )
    trainer = Shown(
        model=model,
        args=arguments,
        train_dataset=sentences(56),
        eval_dataset=sentences(8),
        processing_class=tokenizer(),
        callbacks=[Shows(), suspension()],
    )
    trainer.train(resume_from_checkpoint=last(arguments.output_dir))
