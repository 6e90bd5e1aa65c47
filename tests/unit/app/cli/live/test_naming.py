import pytest

from shunter.cli import name_of


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 1", "train.py"),
        ("torchrun --nproc-per-node 2 /data/ana/train.py", "train.py"),
        ("python -u -m shop.train --out run.sh", "shop.train"),
        ("torchrun --nproc-per-node 2 -m shop.train", "shop.train"),
        ("bash run.sh train.py", "run.sh"),
        ("env A=1 accelerate launch train.py", "train.py"),
        ("/usr/bin/nvidia-smi -L", "nvidia-smi"),
        ("./train.sh", "train.sh"),
        ("sleep --until=x.py", "sleep"),
    ],
)
def test_job_without_a_name_is_called_by_its_script(command: str, name: str) -> None:
    assert name_of(command.split()) == name


def test_text_of_a_program_is_no_name() -> None:
    assert name_of(["sh", "-c", "echo\npython x.py"]) == "sh"


def test_long_name_is_cut() -> None:
    assert name_of(["python", f"{'a' * 60}.py"]) == "a" * 40
