"""`python -m shunter.train.check` over real scripts, each with one thing that is wrong, or none."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.unit.train.toy import ROOT

SCRIPT = """
import random
from shunter import train
from shunter.train import check


class Part:
    def __init__(self, **state):
        vars(self).update(state)

    def state_dict(self):
        return dict(vars(self))

    def load_state_dict(self, state):
        vars(self).update(state)


class Loader:
    def __iter__(self):
        order = [0.1 * n for n in range(6)]
        random.shuffle(order)
        return iter(order)


random.seed(1)
model, momentum, noise = Part(weight=0.5), Part(value=0.0), random.Random(2)
run = train.start(model=model, momentum=momentum, noise=noise)


def main():
    for epoch in run.epochs(3):
        for x in run.batches(Loader()):
            loss = model.weight * x - 1 + noise.gauss(0, 0.1) * random.random()
            momentum.value = 0.9 * momentum.value + loss
            model.weight -= 0.01 * momentum.value
            check.saw(batch=x, loss=loss, model=model)
            run.step()
        for x in run.evaluate(Loader()):
            random.random()


main()
"""


class Checked(NamedTuple):
    """What a check came to."""

    code: int
    output: str
    error: str
    points: list[dict[str, Any]]

    def outcomes(self, kind: str) -> list[str]:
        return [each["outcome"] for each in self.points if each["kind"] == kind]

    @property
    def because(self) -> str:
        return "\n".join(line for each in self.points for line in each["because"])


def checked(folder: Path, script: str, *words: str, options: tuple[str, ...] = ()) -> Checked:
    """Check a script with its arguments."""
    path, result = folder / "script.py", folder / "result.json"
    path.write_text(script)
    command = [sys.executable, "-m", "shunter.train.check", "--json", str(result), "--random", "2"]
    ran = subprocess.run(
        [*command, *options, str(path), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=300,
    )
    points = json.loads(result.read_text())["points"] if result.exists() else []
    return Checked(ran.returncode, ran.stdout, ran.stderr, points)


def changed(*changes: str) -> str:
    """Return the script with some texts replaced, each followed by what it is replaced by."""
    script = SCRIPT
    for before, after in zip(changes[::2], changes[1::2], strict=True):
        assert script.count(before) == 1
        script = script.replace(before, after)
    return script


def test_script_that_resumes_exactly_is_told_so(tmp_path: Path) -> None:
    found = checked(tmp_path, SCRIPT, options=("--random", "4"))
    assert found.code == 0, found.output + found.error
    assert "18 mini-batches; two undisturbed runs are equal" in found.output
    for kind in ("mid-epoch", "last batch", "epoch end", "evaluation"):
        assert found.outcomes(kind) == ["exact"]
    assert found.outcomes("by chance") == ["exact"] * 4
    assert max(len(each["left"]) for each in found.points) == 2
    assert "no boundary of these kinds: accumulation" in found.output


@pytest.mark.live
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param(
            ("momentum=momentum, ", ""),
            ("other bits: model; equal: batch, loss", "with other bits: momentum\n"),
            id="an optimizer that is no part",
        ),
        pytest.param(
            (", noise=noise", ""),
            ("other bits: loss, model, momentum; equal: batch", "with other bits: noise\n"),
            id="a generator that is no part",
        ),
        pytest.param(
            ("run.batches(Loader())", "Loader()"),
            ("other bits: batch", "do not come through run.batches(loader), which puts them back"),
            id="a plain loader",
        ),
        pytest.param(
            (
                "def load_state_dict(self, state):\n        vars(self)",
                "def load_state_dict(self, state):\n        if 'value' not in state: vars(self)",
            ),
            ("loaded with other bits than it was saved with: momentum",),
            id="a part that does not load",
        ),
        pytest.param(
            (
                *("def main():\n", "def main():\n    count = 0\n"),
                *("model.weight -= 0.01", "count += 1; model.weight -= 0.01 / count"),
            ),
            ("other bits: model; equal: batch, loss", "with other values: count"),
            id="a counter that begins again",
        ),
        pytest.param(
            (
                *("class Part", "class Own:\n    pass\n\n\nclass Part"),
                *("def main():\n", "own = Own()\nown.rates = [Part(rate=1.0)]\n\n\ndef main():\n"),
                *(
                    "model.weight -=",
                    "own.rates[0].rate *= 0.9; model.weight -= own.rates[0].rate *",
                ),
            ),
            ("other bits: model; equal: batch, loss", "with other bits: own.rates[0]"),
            id="a schedule within an object of the script",
        ),
    ],
)
def test_what_is_lost_is_named(
    tmp_path: Path, changes: tuple[str, ...], named: tuple[str, ...]
) -> None:
    found = checked(tmp_path, changed(*changes))
    assert found.code == 1, found.output + found.error
    assert found.outcomes("mid-epoch") == ["different"]
    for words in named:
        assert words in found.because + "\n"


@pytest.mark.live
def test_evaluation_that_changes_what_is_trained_is_found(tmp_path: Path) -> None:
    """Only where it is interrupted in mid-evaluation does this script go on otherwise."""
    found = checked(
        tmp_path,
        changed(
            "            random.random()\n",
            "            momentum.value *= 1.01\n",
        ),
    )
    assert found.outcomes("mid-epoch") == found.outcomes("last batch") == ["exact"]
    assert found.outcomes("evaluation") == ["different"]
    assert "loaded with other bits than it was saved with: momentum" in found.because


@pytest.mark.live
def test_accumulated_gradients_are_waited_for(tmp_path: Path) -> None:
    script = changed(
        *("def main():\n", "run.is_whole = lambda: run.steps_done % 3 == 0\n\n\ndef main():\n"),
        *("momentum.value = 0.9 * momentum.value + loss", "gathered.append(loss)"),
        *("            model.weight -= 0.01 * momentum.value\n", STEP_OF_THREE),
        *("noise=noise)\n", "noise=noise)\ngathered = []\n"),
    )
    found = checked(tmp_path, script)
    assert found.code == 0, found.output + found.error
    assert found.outcomes("accumulation") == ["exact"]
    (point,) = [each for each in found.points if each["kind"] == "accumulation"]
    assert point["left"][0] > point["asked"][0]
    torn = checked(tmp_path, script.replace("steps_done % 3 == 0", "steps_done >= 0"))
    assert torn.code == 1
    assert "gathered" in torn.because


STEP_OF_THREE = """
            if len(gathered) == 3:
                momentum.value = 0.9 * momentum.value + sum(gathered)
                model.weight -= 0.01 * momentum.value
                gathered.clear()
"""


@pytest.mark.live
def test_script_may_show_a_mini_batch_after_its_boundary(tmp_path: Path) -> None:
    """Hooks of a module come after those of callbacks."""
    shows = "            check.saw(batch=x, loss=loss, model=model)\n"
    step = "            run.step()\n"
    found = checked(tmp_path, changed(shows + step, step + shows))
    assert found.code == 0, found.output + found.error
    assert "18 mini-batches" in found.output
    assert found.outcomes("mid-epoch") == ["exact"]
    lost = changed(shows + step, step + shows, ", noise=noise", "")
    assert checked(tmp_path, lost).code == 1


def test_script_that_ends_with_status_0_when_asked_is_wrong(tmp_path: Path) -> None:
    ends = "if os.path.exists(os.environ.get('SHUNTER_SUSPEND', '')): raise SystemExit"
    found = checked(
        tmp_path,
        changed(
            "import random\n",
            "import os, random\n",
            "            run.step()",
            f"            {ends}\n            run.step()",
        ),
    )
    assert found.code == 1
    assert found.outcomes("mid-epoch") == ["failed"]
    assert "it was asked to leave, and ended with status 0 without having saved" in found.because


@pytest.mark.live
def test_script_that_is_told_to_leave_and_does_not_is_wrong(tmp_path: Path) -> None:
    script = changed("run.step()", "run.boundary()", "run.evaluate(Loader())", "Loader()")
    found = checked(tmp_path, script)
    assert found.code == 1
    assert "it was told to leave (`run.boundary()` was true), and ended with" in found.because


@pytest.mark.live
def test_script_that_cannot_save_is_wrong_though_it_trains_to_its_end(tmp_path: Path) -> None:
    found = checked(tmp_path, changed("value=0.0)", "value=0.0, log=print)"))
    assert found.code == 1
    assert found.outcomes("mid-epoch") == ["failed"]
    assert "it could not save: TypeError: ['parts']['momentum']['log']" in found.because


@pytest.mark.live
def test_script_that_does_not_load_is_wrong(tmp_path: Path) -> None:
    found = checked(
        tmp_path,
        changed(
            "    def load_state_dict(self, state):\n",
            "    def load_state_dict(self, state):\n        raise RuntimeError('size mismatch')\n",
        ),
    )
    assert found.code == 1
    assert found.outcomes("mid-epoch") == ["failed"]
    assert "RuntimeError: size mismatch" in found.because


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param(
            ("def main():\n", "def main():\n    raise ValueError('no such model')\n"),
            ("it ends with status 1", "it ended with status 1", "| ValueError: no such model"),
            id="it fails",
        ),
        pytest.param(
            ("def main():\n", "def main():\n    open('data.csv')\n"),
            ("it runs in an empty folder", "--link PATH"),
            id="it reads by a relative path",
        ),
        pytest.param(
            ("random.Random(2)", "random.SystemRandom()", ", noise=noise", ""),
            ("two undisturbed runs differ at mini-batch 1 in loss, model, momentum: seed what it",),
            id="it is not deterministic",
        ),
        pytest.param(
            (
                "order = [0.1 * n for n in range(6)]",
                "order = [0.1 * len(n) for n in {'a', 'bc', 'def', 'ghij'}]",
            ),
            ("two undisturbed runs differ at mini-batch", "iterate over no set"),
            id="it iterates over a set",
        ),
        pytest.param(
            ("            run.step()\n", ""),
            ("it shows 18 mini-batches and comes to no boundary",),
            id="it has no boundary",
        ),
        pytest.param(
            (
                "            run.step()\n",
                "",
                "            check.saw(batch=x, loss=loss, model=model)\n",
                "",
            ),
            ("no mini-batch was counted",),
            id="it shows nothing and has no boundary",
        ),
        pytest.param(("def main():", "def main()"), ("script.py, line",), id="it cannot be parsed"),
        pytest.param(
            ("def main():\n", "import os\n\n\ndef main():\n    os.kill(os.getpid(), 9)\n"),
            ("signal 9 ended it",),
            id="a signal ends it",
        ),
    ],
)
def test_script_that_cannot_be_checked_is_refused_and_says_why(
    tmp_path: Path, changes: tuple[str, ...], named: tuple[str, ...]
) -> None:
    found = checked(tmp_path, changed(*changes))
    assert found.code == 2, found.output + found.error
    assert found.error.startswith("error: ")
    assert "Traceback" not in found.error.partition("\n")[0]
    assert any(words in found.error for words in named), found.error


def test_run_that_shows_nothing_is_refused(tmp_path: Path) -> None:
    shows = "            check.saw(batch=x, loss=loss, model=model)\n"
    found = checked(tmp_path, changed("model=model, momentum=momentum, noise=noise", "", shows, ""))
    assert found.code == 2
    assert "there is nothing to compare: give `train.start` what it trains" in found.error


@pytest.mark.live
def test_script_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    waits = "    if run.resumed_from: __import__('time').sleep(60)\n"
    found = checked(
        tmp_path,
        changed("def main():\n", f"def main():\n{waits}"),
        options=("--limit", "2", "--random", "0"),
    )
    assert found.code == 1
    assert "it took longer than a process may (--limit)" in found.because


@pytest.mark.live
def test_script_that_switches_its_alarm_off_is_ended_all_the_same(tmp_path: Path) -> None:
    waits = "    if run.resumed_from: signal.alarm(0); __import__('time').sleep(100)\n"
    found = checked(
        tmp_path,
        changed("def main():\n", f"import signal\n\n\ndef main():\n{waits}").replace(
            "epochs(3)", "epochs(1)"
        ),
        options=("--limit", "1", "--random", "0"),
    )
    assert found.code == 1
    assert "it took longer than a process may (--limit)" in found.because


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130)]
)
def test_signal_ends_the_script_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    script, scratch, pid = tmp_path / "script.py", tmp_path / "scratch", tmp_path / "pid"
    scratch.mkdir()
    writes = f"open({str(pid)!r}, 'w').write(f'{{os.getpid()}}\\n')"
    script.write_text(f"import os, time\n{writes}\ntime.sleep(100)\n")
    check = subprocess.Popen(
        [sys.executable, "-m", "shunter.train.check", str(script)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not (pid.exists() and pid.read_text().endswith("\n")):
        time.sleep(0.05)
    check.send_signal(number)
    output = check.communicate(timeout=30)[0]
    assert (check.returncode, output) == (code, "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert not sorted(scratch.iterdir())


@pytest.mark.live
def test_many_warnings_do_not_hide_where_a_script_saves(tmp_path: Path) -> None:
    """The FIFO of a job holds 64 kB, and whoever else writes there may write anything."""
    warns = "for n in range(600): run.warn(f'{n} ' * 30); time.sleep(0.0002)\n"
    other = (
        "if 'SHUNTER_CHANNEL' in os.environ:\n"
        "    open(os.environ['SHUNTER_CHANNEL'], 'w').write('oh\\n[1]\\n')"
    )
    found = checked(
        tmp_path,
        changed(
            "import random\n",
            "import os, random, time\n",
            "\n\ndef main",
            f"\n{warns}{other}\n\ndef main",
        ),
        options=("--random", "0"),
    )
    assert found.code == 0, found.output + found.error
    assert found.outcomes("half saved") == ["exact", "exact"]


@pytest.mark.live
def test_checkpoint_that_is_not_there_to_be_damaged_counts(tmp_path: Path) -> None:
    script = SILENT.replace("run.saved_by_script(folder)", "os._exit(75)")
    found = checked(tmp_path, f"import os\n{script}", options=("--random", "0"))
    assert found.code == 1
    assert found.outcomes("half saved") == ["not tried", "not tried"]
    assert "half a checkpoint could not be tried" in found.because


def test_script_gets_its_own_arguments(tmp_path: Path) -> None:
    parser = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--random')\n"
    )
    script = changed("import random\n", f"import random\n{parser}", "range(6)", "range(words)")
    script = script.replace("class Part:", "words = int(parser.parse_args().random)\nclass Part:")
    found = checked(tmp_path, script, "--random", "4")
    assert found.code == 0, found.output + found.error
    assert "12 mini-batches" in found.output
    assert checked(tmp_path, script, "--random", "no").code == 2


@pytest.mark.live
def test_what_a_script_reads_by_a_relative_path_can_be_linked(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1")
    script = changed("def main():\n", "def main():\n    open('data.csv')\n")
    found = checked(tmp_path, script, options=("--link", str(tmp_path / "data.csv")))
    assert found.code == 0, found.output + found.error


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    found = checked(tmp_path, SCRIPT, options=("--link", "none", "--random", "1"))
    assert (found.code, found.error) == (2, "error: none: no such file\n")


@pytest.mark.live
def test_module_beside_a_script_is_its_own_in_each_process(tmp_path: Path) -> None:
    """It draws when it is imported: a resumed run must not find what another process drew."""
    (tmp_path / "beside.py").write_text("import random\nnoise = random.SystemRandom().random()\n")
    found = checked(
        tmp_path,
        changed(
            "import random\n", "import random, beside\n", "model.weight * x", "beside.noise * x"
        ),
    )
    assert found.code == 2
    assert "two undisturbed runs differ at mini-batch 1 in loss, model" in found.error


@pytest.mark.live
def test_library_that_prints_when_it_is_imported_does_not_disturb(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "noisy.py").write_text("print('welcome')\n")
    found = checked(
        tmp_path, f"import sys; sys.path.insert(0, {str(folder)!r})\nimport noisy\n{SCRIPT}"
    )
    assert found.code == 0, found.output + found.error


@pytest.mark.live
def test_half_a_checkpoint_is_not_resumed(tmp_path: Path) -> None:
    found = checked(tmp_path, SCRIPT)
    assert found.outcomes("half saved") == ["exact", "exact"]
    assert found.because.count("it goes on from the checkpoint after mini-batch 4") == 2


OWN = """
import json, pathlib
def save(folder): (folder / "own.json").write_text(json.dumps(model.state_dict()) + " " * 200)
def load(folder): model.load_state_dict(json.loads((folder / "own.json").read_text()))
run = train.start(save=save, load=load, momentum=momentum, noise=noise)
"""


@pytest.mark.live
def test_half_of_what_a_script_saves_itself_is_not_resumed(tmp_path: Path) -> None:
    start = "run = train.start(model=model, momentum=momentum, noise=noise)\n"
    found = checked(tmp_path, changed(start, OWN))
    assert found.code == 0, found.output + found.error
    assert found.outcomes("half saved") == ["exact", "exact"]


FIXED = """
import pathlib
def save(folder):
    pathlib.Path("latest").write_text(repr(model.weight))
    (folder / "saved").touch()
def load(folder): model.weight = float(pathlib.Path("latest").read_text())
run = train.start(save=save, load=load, momentum=momentum, noise=noise)
"""


@pytest.mark.live
def test_script_that_saves_beside_its_checkpoints_is_wrong(tmp_path: Path) -> None:
    """It is exact as long as nobody goes back to an earlier checkpoint."""
    start = "run = train.start(model=model, momentum=momentum, noise=noise)\n"
    found = checked(tmp_path, changed(start, FIXED))
    assert found.code == 1
    assert found.outcomes("mid-epoch") == ["exact"]
    assert found.outcomes("half saved") == ["different", "different"]
    assert "it goes on from the checkpoint after mini-batch 4, with other bits" in found.because


SILENT = """
import pathlib
from shunter import train
from shunter.train import check
weight, own = 0.5, pathlib.Path("own")
run = train.start()
for folder in sorted(own.glob("*"), key=lambda path: int(path.name))[-1:]:
    weight, run.steps_done = float.fromhex((folder / "weight").read_text()), int(folder.name)
while run.steps_done < 12:
    weight -= 0.1 * (weight - 1)
    check.saw(run.steps_done // 4, weight=weight)
    if run.boundary():
        folder = own / str(run.steps_done)
        folder.mkdir(parents=True)
        (folder / "weight").write_text(weight.hex())
        run.saved_by_script(folder)
"""


@pytest.mark.live
def test_script_that_trains_on_with_half_a_checkpoint_is_wrong(tmp_path: Path) -> None:
    found = checked(tmp_path, SILENT)
    assert found.code == 1
    assert found.outcomes("mid-epoch") == ["exact"]
    assert found.outcomes("half saved") == ["failed", "refused"]
    assert "it trains on with half a checkpoint: it must refuse that" in found.because
    assert "it says: FileNotFoundError" in found.because


@pytest.mark.live
def test_checkpoint_of_other_ranks_is_refused(tmp_path: Path) -> None:
    found = checked(tmp_path, SCRIPT)
    assert found.outcomes("other ranks") == ["refused"]
    assert "is of 1 rank, this run has 2: name what is equal on all ranks" in found.because


@pytest.mark.live
def test_script_whose_parts_are_equal_on_all_ranks_is_not_tried_under_others(
    tmp_path: Path,
) -> None:
    parts = "replicated=('model', 'momentum', 'noise'), noise=noise)"
    found = checked(tmp_path, changed("noise=noise)", parts))
    assert found.code == 0
    assert found.outcomes("other ranks") == []


TRAINS = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
TORCH = """
import torch
from shunter import train
from shunter.train import check

torch.manual_seed(1)
torch.set_num_threads(1)


class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((4,), index / 24)


model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(
    Noisy(), batch_size=4, shuffle=True, num_workers=check.workers(0)
)
run = train.start(model=model, optimizer=optimizer)
for epoch in run.epochs(2):
    for x in run.batches(loader):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        check.saw(batch=x, loss=loss)
        run.step()
"""


@pytest.mark.live
@TRAINS
def test_loader_of_torch_is_tried_with_other_workers(tmp_path: Path) -> None:
    found = checked(tmp_path, TORCH, options=("--random", "0"))
    assert found.code == 0, found.output + found.error
    assert found.outcomes("other workers") == ["exact", "exact"]


@pytest.mark.live
@TRAINS
def test_optimizer_of_torch_that_is_no_part_is_named(tmp_path: Path) -> None:
    lost = TORCH.replace(", optimizer=optimizer)", ")")
    found = checked(tmp_path, lost, options=("--random", "0"))
    assert found.code == 1
    assert "other bits: model; equal: batch, loss" in found.because
    assert "not given to train.start, and with other bits: optimizer" in found.because


EMA = """
ema = torch.optim.swa_utils.AveragedModel(model)
first, last = model[0], [model[2].weight]
best = 1e9
run = train.start(model=model, optimizer=optimizer)
for epoch in run.epochs(2):
    total = 0.0
    for x in run.batches(loader):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
        total += loss.item()
        best = min(best, total)
        run.step()
"""


@pytest.mark.live
@TRAINS
def test_average_of_a_model_that_is_no_part_is_named(tmp_path: Path) -> None:
    """All that is trained is equal, and yet what such a script keeps in the end is not."""
    script = TORCH.partition("run = ")[0] + EMA
    found = checked(tmp_path, script, options=("--random", "0"))
    assert found.code == 1
    assert found.outcomes("mid-epoch") == ["different"]
    assert "not given to train.start, and with other bits at the end: ema" in found.because
    assert "first" not in found.because
    found = checked(tmp_path, script.replace("optimizer)\nfor", "optimizer, ema=ema)\nfor"))
    assert found.code == 0, found.output + found.error
    said = [line for line in found.output.splitlines() if line.startswith("exact, but these")]
    assert len(said) == 1
    assert "best, total" in said[0] or "total, best" in said[0], said
    assert "model" not in said[0]
    assert "last" not in said[0]


@pytest.mark.live
@TRAINS
def test_modules_within_a_part_are_not_named(tmp_path: Path) -> None:
    made = (
        "one, two = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)\n"
        "model = torch.nn.Sequential(one, two)"
    )
    script = re.sub(r"model = .*", made, TORCH).replace(", optimizer=optimizer)", ")")
    found = checked(tmp_path, script, options=("--random", "0"))
    assert found.code == 1
    assert "not given to train.start, and with other bits: optimizer\n" in found.because + "\n"


@pytest.mark.live
@TRAINS
def test_data_that_draws_in_workers_cannot_be_compared(tmp_path: Path) -> None:
    """Where no worker draws, the same script is exact; see the number of workers in its place."""
    drawn = TORCH.replace("index / 24)", "index / 24) + torch.rand(())")
    found = checked(tmp_path, drawn, options=("--random", "0"))
    assert found.code == 0, found.output + found.error
    assert found.outcomes("mid-epoch") == ["exact"]
    assert found.outcomes("other workers") == ["not comparable", "not comparable"]
    assert "with 2 workers instead of 0 it trains with other batches even before" in found.because
    assert "being under Shunter" not in found.because


@pytest.mark.live
@TRAINS
def test_state_that_is_lost_under_other_workers_is_wrong(tmp_path: Path) -> None:
    lost = TORCH.replace(", optimizer=optimizer)", ")")
    found = checked(tmp_path, lost, options=("--random", "0"))
    assert found.outcomes("other workers") == ["different", "different"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        pytest.param(("--json", "none/result.json"), "--json none/result.json: No such file"),
        pytest.param(("--limit", "0"), "argument --limit: at least 1"),
        pytest.param(("--random", "-1"), "argument --random: at least 0"),
        pytest.param(("--random", "few"), "argument --random: invalid number value: 'few'"),
    ],
)
def test_option_that_cannot_be_is_refused_before_the_work(
    tmp_path: Path, options: tuple[str, ...], named: str
) -> None:
    found = checked(tmp_path, SCRIPT, options=options)
    assert (found.code, found.output) == (2, "")
    assert named in found.error


def test_folder_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "beside.py").mkdir()
    found = checked(tmp_path, SCRIPT, options=(str(tmp_path / "beside.py"),))
    assert found.code == 2
    assert "beside.py: is a directory, no script" in found.error


def test_option_after_the_script_is_told_to_be_the_script_s_own(tmp_path: Path) -> None:
    found = checked(tmp_path, "raise SystemExit(3)", "--limit=4")
    assert found.code == 2
    assert "note: --limit=4 is given to the script" in found.error
