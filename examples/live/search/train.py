"""Train one configuration of the search, and print its accuracy on held-out data as it goes.

    python train.py SEED LEARNING_RATE HIDDEN STEPS [PACE_S]

A line is a JSON object: {"step": 20, "accuracy": 0.61}. What one prints depends on the arguments
alone, not on who preempted it: shunter.train restores all of it.
"""

import json
import sys
import time
from collections.abc import Iterator

from shunter import train  # before torch, so that a request during its import is heard

# isort: split

import torch

EVERY = 20
"""Mini-batches from one accuracy to the next."""


def accuracies(
    seed: int, rate: float, hidden: int, steps: int, pace_s: float = 0.0
) -> Iterator[tuple[int, float]]:
    """Train on points in four quadrants; yield steps with the accuracy after them."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    points = torch.randn(1280, 2, generator=torch.Generator().manual_seed(7))
    labels = (points.prod(dim=1) > 0).long()
    learnt = torch.utils.data.TensorDataset(points[:1024], labels[:1024])
    loader = torch.utils.data.DataLoader(learnt, batch_size=32, shuffle=True)
    model = torch.nn.Sequential(
        torch.nn.Linear(2, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, 2),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    run = train.start(model=model, optimizer=optimizer)  # goes on from the last checkpoint
    for _ in run.epochs(-(-steps // len(loader))):
        for features, wanted in run.batches(loader):
            due_s = time.monotonic() + pace_s
            loss = torch.nn.functional.cross_entropy(model(features), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done = run.steps_done + 1
            if done % EVERY == 0:
                with torch.no_grad():
                    right = model(points[1024:]).argmax(dim=1) == labels[1024:]
                yield done, right.float().mean().item()
            time.sleep(max(0.0, due_s - time.monotonic()))
            if done == steps:
                return
            run.step()  # may save here, and leave


def main() -> None:
    """Train as the command line says."""
    seed, rate, hidden, steps = sys.argv[1:5]
    pace_s = float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
    for step, accuracy in accuracies(int(seed), float(rate), int(hidden), int(steps), pace_s):
        print(json.dumps({"step": step, "accuracy": accuracy}), flush=True)


if __name__ == "__main__":
    main()
