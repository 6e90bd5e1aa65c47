"""Which processes of an attempt are ranks that a launcher started, by what the kernel tells."""

from pathlib import Path

import pytest

from shunter.backends.node import launched, launchers

OURS = {"RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
Tree = dict[int, tuple[int, dict[str, str]]]


def torchrun(local: int) -> dict[str, str]:
    return {**OURS, "LOCAL_RANK": str(local), "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": "2"}


CASES: dict[str, tuple[Tree, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "a program alone": ({2: (1, OURS), 3: (2, OURS)}, (), (), ()),
    "torchrun below a shell, with workers of a loader": (
        {2: (1, OURS), 3: (2, OURS), 4: (3, torchrun(0)), 5: (3, torchrun(1)), 6: (5, torchrun(1))},
        (4, 5),
        (2, 3),
        (4, 5, 6),
    ),
    "torchrun with one rank, whose number is that of the job's own": (
        {2: (1, OURS), 3: (2, {**OURS, "GROUP_RANK": "0"})},
        (3,),
        (2,),
        (3,),
    ),
    "a helper of the launcher is none of its ranks": (
        {2: (1, OURS), 3: (2, OURS), 4: (2, torchrun(0))},
        (4,),
        (2,),
        (4,),
    ),
    "mpirun": (
        {
            2: (1, OURS),
            3: (2, {**OURS, "OMPI_COMM_WORLD_LOCAL_RANK": "0"}),
            4: (2, {**OURS, "OMPI_COMM_WORLD_LOCAL_RANK": "1"}),
        },
        (3, 4),
        (2,),
        (3, 4),
    ),
    "deepspeed over its own launcher": (
        {
            2: (1, OURS),
            3: (2, OURS),
            4: (3, {**OURS, "CROSS_RANK": "0"}),
            5: (3, {**OURS, "CROSS_RANK": "0", "LOCAL_RANK": "1"}),
        },
        (4, 5),
        (2, 3),
        (4, 5),
    ),
    "accelerate with one process": (
        {2: (1, OURS), 3: (2, {**OURS, "ACCELERATE_MIXED_PRECISION": "no"})},
        (3,),
        (2,),
        (3,),
    ),
    "mpirun that starts torchrun: those of the inner one train": (
        {
            2: (1, OURS),
            3: (2, {**OURS, "OMPI_COMM_WORLD_LOCAL_RANK": "0"}),
            4: (3, {**torchrun(0), "OMPI_COMM_WORLD_LOCAL_RANK": "0"}),
        },
        (4,),
        (2, 3),
        (4,),
    ),
    "a trainer that starts the other ranks is rank 0 itself": (
        {2: (1, OURS), 3: (2, {**OURS, "LOCAL_RANK": "1"})},
        (),
        (),
        (),
    ),
    "a variable that is gone makes no rank": ({2: (1, OURS), 3: (2, {})}, (), (), ()),
    "processes of others are not looked at": (
        {2: (1, OURS), 8: (7, OURS), 9: (8, torchrun(0))},
        (),
        (),
        (),
    ),
}


def told(folder: Path, tree: Tree, commands: dict[int, list[str]]) -> dict[int, int]:
    """Have a folder tell of processes as the kernel does; return their parents."""
    for pid, (_, environment) in tree.items():
        (folder / str(pid)).mkdir()
        given = "".join(f"{key}={value}\0" for key, value in {"A": "b", **environment}.items())
        (folder / str(pid) / "environ").write_text(given)
        command = commands.get(pid, ["python3", "train.py"])
        (folder / str(pid) / "cmdline").write_text("".join(f"{word}\0" for word in command))
    return {pid: parent for pid, (parent, _) in tree.items()}


@pytest.mark.parametrize("name", CASES)
def test_ranks_are_told_apart_from_their_launcher(name: str, tmp_path: Path) -> None:
    tree, ranks, launchers_of, family = CASES[name]
    parents = told(tmp_path, tree, {pid: ["/usr/bin/torchrun"] for pid in launchers_of})
    assert launched(1, parents, str(tmp_path)) == (ranks, launchers_of, family, ())


@pytest.mark.parametrize("name", CASES)
def test_program_that_starts_such_processes_is_no_launcher(name: str, tmp_path: Path) -> None:
    tree, *_ = CASES[name]
    assert launched(1, told(tmp_path, tree, {}), str(tmp_path)) == ((), (), (), ())


def test_trainer_with_a_launcher_beside_it_is_above_that(tmp_path: Path) -> None:
    tree = {2: (1, OURS), 3: (2, OURS), 4: (3, OURS), 5: (4, torchrun(0))}
    commands = {2: ["/bin/sh", "-c", "x"], 4: ["/usr/bin/python3", "/usr/bin/torchrun", "e.py"]}
    found = launched(1, told(tmp_path, tree, commands), str(tmp_path))
    assert found == ((5,), (2, 3, 4), (5,), (3,))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python3 /opt/bin/torchrun --nproc-per-node 2 train.py", True),
        ("python3.11 -u -m torch.distributed.run train.py", True),
        ("/usr/bin/python3 -W ignore -m accelerate.commands.launch train.py", True),
        ("python -u -m deepspeed.launcher.launch train.py", True),
        ("/usr/bin/mpirun -np 2 python train.py", True),
        ("python3 train.py --deepspeed ds.json", False),
        ("python3 accelerate/train.py", False),
        ("python3 deepspeed_train.py", False),
        ("sh -c torchrun", False),
        ("python3", False),
        ("", False),
    ],
)
def test_launcher_is_known_by_its_command_line(command: str, expected: bool) -> None:
    assert launchers.is_launcher(command.split()) is expected


def test_process_that_is_gone_is_no_rank(tmp_path: Path) -> None:
    assert launched(1, {2: 1, 3: 2}, str(tmp_path)) == ((), (), (), ())
