"""Real PyTorch on the CPU, which `make live` installs; skipped where it is absent."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: make live does it")

from shunter.train import archives, channel, serialization
from shunter.train.adapters import huggingface
from shunter.train.batches import Batches
from tests.unit.train.toy import Supervisor

pytestmark = pytest.mark.live
torch: Any = sys.modules["torch"]

MODEL = """
import json, os, sys
from shunter import train
import torch
torch.manual_seed(int(sys.argv[2])); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.2), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 7)
order = torch.Generator().manual_seed(5)
data = torch.arange(16 * 60, dtype=torch.float32).reshape(60, 16) / 960
loader = torch.utils.data.DataLoader(
    data, batch_size=6, shuffle=True, generator=None if sys.argv[3] == "global" else order)
"""
SCRIPT = (
    MODEL
    + """
run = train.start(model=model, optimizer=optimizer, schedule=schedule)
stop_at = int(sys.argv[1])
for epoch in run.epochs(3):
    for batch in run.batches(loader):
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step(); schedule.step()
        print(json.dumps([run.steps_done + 1, loss.item().hex()]), flush=True)
        if run.steps_done + 1 == stop_at:
            open(os.environ["SHUNTER_SUSPEND"], "w").close()
        run.step()
"""
)
DISTRIBUTED = (
    MODEL
    + """
rank = int(os.environ["RANK"])
torch.distributed.init_process_group(
    "gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(model)
run = train.start(model=model, optimizer=optimizer, replicated=("model", "optimizer"))
for step in range(10**6):
    loss = model(data[rank::2]).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if rank == 1 and step == 20:
        open(os.environ["SHUNTER_SUSPEND"], "w").close()
    run.step()
"""
)


def environment(supervisor: Supervisor, folder: Path, attempt: int) -> dict[str, str]:
    named = supervisor.environment(folder / "checkpoints")
    return {**os.environ, **named, channel.ATTEMPT: str(attempt)}


def run_to(folder: Path, attempt: int, code: int, *program: str, **more: str) -> list[str]:
    """Run a program as an attempt; return what it prints."""
    folder.mkdir(exist_ok=True)
    with Supervisor(folder / str(attempt)) as supervisor:
        done = subprocess.run(
            [sys.executable, "-c", *program],
            env={**environment(supervisor, folder, attempt), **more},
            check=False,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
        )
    assert done.returncode == code, done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["global", "own"])
def test_resumed_losses_of_torch_are_bit_identical(tmp_path: Path, kind: str) -> None:
    """Another seed for each attempt: nothing but the checkpoint may carry chance over."""

    def lines(folder: str, attempt: int, stop_at: int) -> list[str]:
        code = 0 if stop_at < 0 else channel.EXIT_SUSPENDED
        return run_to(tmp_path / folder, attempt, code, SCRIPT, str(stop_at), str(attempt), kind)

    expected = lines("whole", 1, -1)
    found = [line for cut in enumerate([4, 10, 28, -1], 1) for line in lines("cut", *cut)]
    assert [json.loads(line)[0] for line in found] == list(range(1, 31))
    assert found == expected


def test_ranks_of_torch_distributed_stop_at_one_step(tmp_path: Path) -> None:
    meeting = {"MEETING": str(tmp_path / "meeting"), "WORLD_SIZE": "2"}
    with Supervisor(tmp_path / "attempt") as supervisor:
        shared = environment(supervisor, tmp_path, 1)
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", DISTRIBUTED, "0", "1", "own"],
                env={**shared, **meeting, "RANK": str(rank)},
                cwd=Path(__file__).parents[3],
            )
            for rank in range(2)
        ]
        assert [rank.wait(120) for rank in ranks] == [channel.EXIT_SUSPENDED] * 2
        (saved,) = supervisor.told("saved")
    assert saved["step"] == 22
    first, second = (Path(saved["checkpoint"]) / f"rank-{rank}.state" for rank in (0, 1))
    assert second.stat().st_size < first.stat().st_size  # rank 0 alone saved model and optimizer


class Own:
    """An object of the script's own."""


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_order_goes_on_under_another_number_of_workers(before: int, after: int) -> None:
    """A loader with workers draws its order as it begins, one without at its first batch."""
    data = torch.arange(40)

    def batches(workers: int) -> Batches[Any]:
        loader = torch.utils.data.DataLoader(data, 4, shuffle=True, num_workers=workers)
        return Batches(loader)

    torch.manual_seed(7)
    expected = [batch.tolist() for batch in batches(before)]
    torch.manual_seed(7)
    begun = batches(before)
    taken = iter(begun)
    found = [next(taken).tolist() for _ in range(3)]
    saved = begun.state_dict()
    torch.manual_seed(8)
    resumed = batches(after)
    resumed.load_state_dict(saved)
    assert found + [batch.tolist() for batch in resumed] == expected


def through(file: Path, state: object) -> Any:
    serialization.write(file, state)
    return serialization.read(file)


def test_tensors_and_generators_are_read_as_they_were_written(tmp_path: Path) -> None:
    norm = torch.nn.BatchNorm1d(3)
    shared = torch.zeros(4)
    order = torch.Generator().manual_seed(5)
    others = (torch.float32, torch.Size([2]), torch.device("cpu"))
    state = {"norm": norm.state_dict(), "shared": [shared, shared[1:]], "order": [order, others]}
    found = through(tmp_path / "state", state)
    assert found["norm"]._metadata == norm.state_dict()._metadata
    assert all(torch.equal(found["norm"][name], value) for name, value in state["norm"].items())
    found["shared"][0][1] = 7
    assert found["shared"][1][0] == 7
    assert found["order"][1] == others
    assert torch.rand(3, generator=found["order"][0]).equal(torch.rand(3, generator=order))


def test_class_that_the_script_has_allowed_is_read(tmp_path: Path) -> None:
    with torch.serialization.safe_globals([Own]):
        assert isinstance(through(tmp_path / "state", {"own": Own()})["own"], Own)


def test_state_that_torch_wrote_before_is_read(tmp_path: Path) -> None:
    torch.save({"step": 3, "parts": {"a": torch.ones(2)}}, tmp_path / "state")
    assert serialization.read(tmp_path / "state")["step"] == 3


def test_tensor_that_changed_on_its_way_into_the_file_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = torch.save

    def damaging(content: object, path: Path) -> None:
        save(content, path)
        at = path.read_bytes().index(b"\x07" * 64)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"\x08")

    monkeypatch.setattr(torch, "save", damaging)
    with pytest.raises(OSError, match="does not hold what was written"):
        serialization.write(tmp_path / "state", torch.full((64,), 7, dtype=torch.uint8))


@pytest.mark.parametrize(
    "value",
    [
        torch.rand(4).to_sparse(),
        torch.rand(4).as_subclass(torch.nn.Parameter),
        torch.arange(6).reshape(2, 3).t()[1:],
        torch.tensor(1.0, dtype=torch.bfloat16),
        torch.zeros(0),
        torch.tensor([float("nan"), -0.0]),
        torch.complex(torch.rand(2), torch.rand(2)).conj(),
        torch.nn.Linear(2, 2),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_tensor_of_any_kind_is_proven(tmp_path: Path, value: Any) -> None:
    """Where bytes cannot be compared with those in memory, checksums are looked at."""
    state = value.state_dict() if isinstance(value, torch.nn.Module) else value
    found = through(tmp_path / "state", {"value": state})["value"]
    if isinstance(value, torch.nn.Module):
        assert all(torch.equal(found[name], state[name]) for name in state)
        return
    assert (found.dtype, found.shape, found.layout) == (value.dtype, value.shape, value.layout)
    if value.layout == torch.strided:
        assert torch.equal(found.isnan(), value.isnan())
        assert torch.equal(found.nan_to_num(), value.nan_to_num())


def test_proof_compares_every_storage_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of a tensor lies where the tensor does: its bytes are not read twice."""
    sound: Any = archives.is_sound
    monkeypatch.setattr(archives, "is_sound", lambda _: pytest.fail("checksums"))
    weights = torch.rand(1000)
    prove = serialization.put(tmp_path / "state", {"all": weights, "some": weights[10:20]})
    prove()
    weights[15] += 1.0  # the file no longer holds what is in memory
    with pytest.raises(OSError, match="does not hold what was written"):
        prove()
    assert sound(tmp_path / "state")


def test_checkpoint_that_the_trainer_could_not_read_is_left_out(tmp_path: Path) -> None:
    for step, rate in ((8, np.float64(0.1)), (9, Own())):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text("{}")
        torch.save({"rate": rate}, folder / "optimizer.pt")
        for name in ("scheduler.pt", "rng_state.pth"):
            (folder / name).touch()
    with pytest.warns(UserWarning, match=r"optimizer.pt cannot be read again \(a tests"):
        assert huggingface.last(str(tmp_path)) == str(tmp_path / "checkpoint-8")


RATES = """
import collections, json, math, os, pathlib, sys
from shunter import train
import numpy as np, torch
torch.set_num_threads(1); torch.manual_seed(int(os.environ["SEED"]))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.cos(step / 9))
class Seen:
    rates = collections.defaultdict(list)
    def state_dict(self): return {"rates": self.rates, "folder": pathlib.Path("a")}
    def load_state_dict(self, state): self.rates = state["rates"]
seen = Seen()
run = train.start(model=model, optimizer=optimizer, schedule=schedule, seen=seen)
while run.steps_done < 8:
    loss = model(torch.randn(2, 4)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step(); schedule.step()
    seen.rates["rate"].append(optimizer.param_groups[0]["lr"])
    rates = seen.rates["rate"]
    print(loss.item().hex(), type(rates[-1]), [float(each).hex() for each in rates])
    sys.stdout.flush()
    if run.steps_done + 1 == int(os.environ["STOP_AT"]):
        open(os.environ["SHUNTER_SUSPEND"], "w").close()
    run.step()
"""


def test_learning_rate_that_numpy_made_goes_on_bit_for_bit(tmp_path: Path) -> None:
    def lines(folder: str, attempt: int, stop_at: int) -> list[str]:
        code = channel.EXIT_SUSPENDED if stop_at else 0
        more = {"SEED": str(attempt), "STOP_AT": str(stop_at)}
        return run_to(tmp_path / folder, attempt, code, RATES, **more)

    assert lines("cut", 1, 3) + lines("cut", 2, 0) == lines("whole", 1, 0)


def test_tensors_that_have_changed_on_the_disk_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.state"
    serialization.write(path, {"weights": torch.full((4096,), 1.5)})
    content = bytearray(path.read_bytes())
    at = content.index(torch.full((64,), 1.5).numpy().tobytes())
    content[at : at + 4] = b"AAAA"
    path.write_bytes(content)
    with pytest.raises(OSError, match="does not hold what was written to it"):
        serialization.read(path)
