"""Ultralytics: YOLO from scratch on made-up pictures, with mosaics, flips, colours and accumulation.

python examples/trainers/train_ultralytics.py
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from ultralytics import YOLO

from shunter.train import check
from shunter.train.adapters.ultralytics import suspension

PICTURES, SIDE = 20, 64


def make_data(folder):
    """Draw squares, each of one of two classes; return the file that names them."""
    chance = np.random.default_rng(7)
    for part in ("train", "val"):
        (folder / "images" / part).mkdir(parents=True, exist_ok=True)
        (folder / "labels" / part).mkdir(parents=True, exist_ok=True)
        for number in range(PICTURES):
            pixels = chance.integers(0, 90, (SIDE, SIDE, 3), dtype=np.uint8)
            x, y, kind = (int(each) for each in (*chance.integers(8, 40, 2), number % 2))
            pixels[y : y + 16, x : x + 16, kind] = 250
            Image.fromarray(pixels).save(folder / "images" / part / f"{number:02}.png")
            label = f"{kind} {(x + 8) / SIDE} {(y + 8) / SIDE} {16 / SIDE} {16 / SIDE}\n"
            (folder / "labels" / part / f"{number:02}.txt").write_text(label)
    file = folder / "data.yaml"
    names = "names: [red, green]"
    file.write_text(f"path: {folder.resolve()}\ntrain: images/train\nval: images/val\n{names}\n")
    return file


def show(trainer):
    losses = {name: value.item() for name, value in trainer.loss_items.items()}
    check.saw(trainer.epoch, loss=losses)


def main():
    torch.set_num_threads(1)
    data = make_data(Path("squares"))
    torch.manual_seed(3)
    model = YOLO("yolo11n.yaml")
    model.add_callback("on_train_batch_end", show)
    suspension(model)
    model.train(
        data=str(data),
        epochs=4,
        close_mosaic=1,
        imgsz=SIDE,
        batch=4,
        nbs=12,  # gradients of three mini-batches, also over the end of an epoch
        warmup_epochs=1.0,
        workers=0,  # as of more, what they draw is not restored
        device="cpu",
        project=str(Path("runs").resolve()),
        name="squares",
        exist_ok=True,  # each attempt goes on in the same folder
        plots=False,
        seed=3,
    )


if __name__ == "__main__":
    main()
