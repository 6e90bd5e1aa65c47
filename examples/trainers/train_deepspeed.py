"""DeepSpeed on a CPU: its engine with accumulation, clipping and a schedule; ZeRO by its stage.

python examples/trainers/train_deepspeed.py [0|1|2]     the stage of ZeRO; 0 by default
"""

import os
import sys
import tempfile

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

from shunter import train
from shunter.train import check

STAGE = int(sys.argv[1]) if len(sys.argv) > 1 else 0
ACCUMULATED = 2


def meet():
    """Be one rank of one, where no launcher has said otherwise."""
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        os.environ.setdefault(name, value)
    if "MASTER_ADDR" not in os.environ:
        place = tempfile.mkdtemp()
        distributed.init_process_group(
            "gloo", init_method=f"file://{place}/meeting", rank=0, world_size=1
        )
    deepspeed.init_distributed("gloo")


def main():
    torch.set_num_threads(1)
    meet()
    torch.manual_seed(3)
    layers = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=40)
    engine, _, _, schedule = deepspeed.initialize(
        model=layers,
        optimizer=optimizer,
        lr_scheduler=schedule,
        config={
            "train_micro_batch_size_per_gpu": 8,
            "gradient_accumulation_steps": ACCUMULATED,
            "gradient_clipping": 1.0,
            "zero_optimization": {"stage": STAGE},
            "zero_force_ds_cpu_optimizer": False,
            "steps_per_print": 10_000,
        },
    )
    data = TensorDataset(torch.randn(96, 6), torch.arange(96) % 3)
    loader = DataLoader(data, 8, shuffle=True, num_workers=check.workers(0))
    validation = DataLoader(data, 44)

    def save(folder):
        engine.save_checkpoint(str(folder), tag="engine")

    def load(folder):
        engine.load_checkpoint(str(folder), tag="engine")

    run = train.start(
        save=save,
        load=load,
        is_whole=lambda: engine.micro_steps % ACCUMULATED == 0,
        made_with={"deepspeed": deepspeed.__version__},
    )
    for epoch in run.epochs(3):
        engine.train()
        for x, y in run.batches(loader):
            loss = nn.functional.cross_entropy(engine(x + 0.1 * torch.randn_like(x)), y)
            engine.backward(loss)
            engine.step()
            check.saw(epoch, batch=x, loss=loss, model=engine.module, rates=schedule.get_last_lr())
            run.step()
        engine.eval()
        for x, y in run.evaluate(validation):
            with torch.no_grad():
                accuracy = (engine(x).argmax(-1) == y).float().mean()
        print(f"epoch {epoch}: accuracy {accuracy:.3f}", flush=True)
    run.finish()


if __name__ == "__main__":
    main()
