"""Train a small network on made-up data, and print every loss exactly.

    python train.py SEED STEPS [PACE_S]

Three lines are Shunter's (1, 2, 3). A step waits for its data until PACE_S after the one before, as
a step that reads from a slow disk would; outside a cluster nothing else is different.
"""

import sys
import time

from shunter import train  # 1: before torch, so that a request during its import is heard

# isort: split

import torch

seed, steps = int(sys.argv[1]), int(sys.argv[2])
pace_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0

torch.set_num_threads(1)
torch.manual_seed(seed)
model = torch.nn.Sequential(
    torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn(640, 32), torch.randn(640, 1))
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)

run = train.start(model=model, optimizer=optimizer)  # 2: goes on from the last checkpoint
for _ in run.epochs(-(-steps // len(loader))):
    for features, wanted in run.batches(loader):
        due_s = time.monotonic() + pace_s
        loss = torch.nn.functional.mse_loss(model(features), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(run.steps_done + 1, loss.item().hex(), flush=True)
        time.sleep(max(0.0, due_s - time.monotonic()))
        if run.steps_done + 1 == steps:
            sys.exit()
        run.step()  # 3: may save here, and leave
