"""A training job of the parts: one model, made-up data, `run.step()` after each mini-batch.

    python -m benchmarks.gpu.job MODEL DEVICE STEPS [--small]

It prints a JSON object a line: `built`, and for each mini-batch its number and when it was done, by
the monotonic clock that all processes of a machine share.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

from shunter import train  # before torch: a request during its import is seen

GPTS = {  # layers, width, heads, tokens of a sequence, sequences of a mini-batch
    "gpt-1.3b": (24, 2048, 16, 1024, 4),
    "gpt-124m": (12, 768, 12, 512, 8),
    "gpt-small": (4, 256, 4, 128, 8),
}
TINY = (2, 32, 2, 16, 2)
WORDS = 50_304
CONV_IMAGES, CONV_SIDE, CONV_WIDTH = 64, 64, 64


class Gpt(nn.Module):  # type: ignore[misc]  # torch has no types where mypy runs
    """Predicts the next of some tokens."""

    def __init__(self, layers: int, width: int, heads: int, tokens: int, words: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                heads,
                4 * width,
                dropout=0.1,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(tokens))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.words(tokens) + self.places(places)
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        return self.head(hidden)


class Conv(nn.Module):  # type: ignore[misc]  # as above
    """Sorts small pictures into ten classes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1)]
        for _ in range(6):
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(width, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(pictures))


class Task:
    """A model, its optimizer and its data, on a device."""

    def __init__(self, name: str, device: str, *, is_small: bool) -> None:
        torch.manual_seed(3)
        self.device = device
        if name == "conv":
            images, side, width = (2, 8, 4) if is_small else (CONV_IMAGES, CONV_SIDE, CONV_WIDTH)
            self._shape: tuple[int, ...] = (images, 3, side, side)
            self.model: nn.Module = Conv(width)
        else:
            layers, width, heads, tokens, sequences = TINY if is_small else GPTS[name]
            self._words = 64 if is_small else WORDS
            self._shape = (sequences, tokens)
            self.model = Gpt(layers, width, heads, tokens, self._words)
        self.model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=device == "cuda")

    def step(self) -> torch.Tensor:
        """Train with one mini-batch; return its loss."""
        with torch.autocast(self.device, torch.bfloat16):
            loss = self._loss()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _loss(self) -> torch.Tensor:
        if len(self._shape) == 4:
            pictures = torch.rand(self._shape, device=self.device)
            wanted = torch.randint(10, self._shape[:1], device=self.device)
            return functional.cross_entropy(self.model(pictures), wanted)
        tokens = torch.randint(self._words, self._shape, device=self.device)
        said = self.model(tokens).float().flatten(0, 1)
        return functional.cross_entropy(said, tokens.roll(-1, 1).flatten())

    def parameters(self) -> int:
        """Return how many numbers the model has."""
        return sum(each.numel() for each in self.model.parameters())


def say(**said: object) -> None:
    """Print one line."""
    print(json.dumps({**said, "at_s": time.monotonic()}), flush=True)


def main() -> None:
    """Train, as any job does."""
    name, device, steps, *options = sys.argv[1:]
    begun_s = time.monotonic()
    task = Task(name, device, is_small="--small" in options)
    say(what="built", parameters=task.parameters(), begun_s=begun_s)
    run = train.start(model=task.model, optimizer=task.optimizer)
    say(what="started", resumed=run.steps_done)
    while run.steps_done < int(steps):
        loss = task.step()
        loss.item()  # the mini-batch is over once the GPU has done it
        say(what="step", number=run.steps_done + 1)
        run.step()
    run.finish()


if __name__ == "__main__":
    main()
