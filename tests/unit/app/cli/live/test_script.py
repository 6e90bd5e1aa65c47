"""Scripts that are submitted: their options, what runs them, which are refused, and names."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.cli import SCRIPT_BYTES_MOST, command_of, name_of, read_script
from shunter.errors import NotFoundError, UsageError

BOM, ENV = b"\xef\xbb\xbf", "/usr/bin/env"
BASH = b"#!/usr/bin/env bash\necho $1\n"


def written(folder: Path, name: str, text: bytes) -> Path:
    path = folder / name
    path.write_bytes(text)
    return path


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "train.sh",
            (
                b"#!/bin/bash\n# about\n#SHUNTER --gpus 2 # why\n\n  #SHUNTER --name 'a b'\n"
                b"echo\n#SHUNTER --gpus 4\n"
            ),
            ("--gpus", "2", "--name", "a b"),
        ),
        ("train.sh", "#!/bin/sh\n# a\u2028#SHUNTER --gpus 2\x0c\necho\n".encode(), ()),
        ("train.py", b"#SHUNTER --gpus 2\r\nprint()\r\n", ("--gpus", "2")),
        ("train.py", BOM + b"#SHUNTER --gpus 2\nprint()\n", ("--gpus", "2")),
    ],
    ids=["up to the first command", "lines end at line feeds", "CR LF", "byte order mark"],
)
def test_options_are_those_of_the_lines_before_the_first_command(
    tmp_path: Path, name: str, text: bytes, words: tuple[str, ...]
) -> None:
    assert read_script(written(tmp_path, name, text)).words == words


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("train.sh", BASH, [ENV, "bash", "-c", BASH.decode(), "PATH", "x"]),
        ("train.sh", b"echo\n", ["/bin/sh", "-c", "echo\n", "PATH", "x"]),
        ("train.sh", b"#!/usr/bin/env python3\nprint()\n", [ENV, "python3", "PATH", "x"]),
        ("train.py", b"#SHUNTER --gpus 2\r\nprint()\r\n", ["python3", "PATH", "x"]),
        ("a.rb", b"#!/usr/bin/env ruby\nputs 1\n", [ENV, "ruby", "PATH", "x"]),
    ],
    ids=["a shell", "no first line", "another interpreter", "Python", "another language"],
)
def test_script_is_run_by_its_first_line_and_that_of_a_shell_as_it_is_now(
    tmp_path: Path, name: str, text: bytes, command: list[str]
) -> None:
    path = written(tmp_path, name, text)
    expected = [str(path) if word == "PATH" else word for word in command]
    assert read_script(path).command(["x"]) == expected


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("train.sh", b"#!/bin/sh\n#SHUNTER --name 'a\n", "train.sh:2"),
        ("train.sh", b"#!/bin/sh\n#SHUNTER --gpus 2 -- python x\n", "train.sh:2"),
        *(
            ("train.py", first + b"\nx\r\n", "train.py:2: the line ends with CR LF")
            for first in (b"#!/usr/bin/env python3", b"#!/bin/sh")
        ),
        *(
            (name, b"#SHUNTER --gpus 2\rprint()\r", f"{name}:1: the lines end with CR alone")
            for name in ("train.sh", "train.py", "train")
        ),
        *(
            ("train.sh", BOM + b"#!/bin/bash\necho\n", words)
            for words in ("train.sh:1: ", "byte order mark")
        ),
        ("a.rb", b"puts 1\n", "#!/usr/bin/env ruby, or shunter submit -- ruby PATH"),
        ("a.R", b"puts 1\n", "#!/usr/bin/env Rscript, or shunter submit -- Rscript PATH"),
        ("a.ipynb", b"puts 1\n", "jupyter nbconvert --to script PATH"),
    ],
)
def test_script_that_would_not_run_is_refused_by_file_and_line(
    tmp_path: Path, name: str, text: bytes, words: str
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(UsageError) as caught:
        read_script(path)
    assert words.replace("PATH", str(path)) in str(caught.value)


def test_long_script_is_refused_before_the_kernel_does(tmp_path: Path) -> None:
    script = read_script(written(tmp_path, "train.sh", b"#" * (SCRIPT_BYTES_MOST + 2)))
    with pytest.raises(UsageError):
        script.command([])


@pytest.mark.parametrize("words", [["sh", "-c", "true"], [sys.executable, "train.py"]])
def test_program_is_run_as_it_is(words: list[str]) -> None:
    assert command_of(words) == (words, None)
    with pytest.raises(NotFoundError):
        command_of(["no-such-program-or-script"])


def test_file_of_python_is_run_by_the_environment_that_is_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "train.py", b"print()\n")
    for variable in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        python = tmp_path / variable / "bin/python"
        python.parent.mkdir(parents=True)
        python.touch()
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert read_script(path).interpreter == (str(python),)


@pytest.mark.parametrize(
    ("text", "first"),
    [(BOM + b"#!/bin/bash\necho\n", "/bin/bash"), (b"#SHUNTER --gpus 2\recho\r", "/bin/sh")],
    ids=["byte order mark", "CR alone"],
)
def test_command_that_is_named_mends_the_script(tmp_path: Path, text: bytes, first: str) -> None:
    path = written(tmp_path, "train.sh", text)
    with pytest.raises(UsageError, match="sed -i") as caught:
        read_script(path)
    words = str(caught.value).partition("sed ")[2]
    subprocess.run(["sed", *shlex.split(words)], check=True)
    assert read_script(path).interpreter == (first,)


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
