import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.cli import SCRIPT_BYTES_MOST, command_of, read_script
from shunter.errors import NotFoundError, UsageError


def written(folder: Path, text: str) -> Path:
    path = folder / "train.sh"
    path.write_text(text, encoding="utf-8")
    return path


def test_options_end_with_the_first_command(tmp_path: Path) -> None:
    script = read_script(
        written(
            tmp_path,
            "#!/bin/bash\n# about\n#SHUNTER --gpus 2 # why\n\n  #SHUNTER --name 'a b'\n"
            "echo\n#SHUNTER --gpus 4\n",
        )
    )
    assert script.words == ("--gpus", "2", "--name", "a b")


def test_script_of_a_shell_is_submitted_as_it_is_now(tmp_path: Path) -> None:
    path = written(tmp_path, "#!/usr/bin/env bash\necho $1\n")
    words = read_script(path).command(["x"])
    text = "#!/usr/bin/env bash\necho $1\n"
    assert words == ["/usr/bin/env", "bash", "-c", text, str(path), "x"]


def test_script_of_another_interpreter_is_run_from_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, "#!/usr/bin/env python3\nprint()\n")
    assert read_script(path).command([]) == ["/usr/bin/env", "python3", str(path)]


def test_script_without_a_first_line_is_for_the_shell(tmp_path: Path) -> None:
    assert read_script(written(tmp_path, "echo\n")).interpreter == ("/bin/sh",)


@pytest.mark.parametrize("line", ["#SHUNTER --name 'a", "#SHUNTER --gpus 2 -- python x"])
def test_wrong_line_is_named_by_file_and_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_script(written(tmp_path, f"#!/bin/sh\n{line}\n"))
    assert "train.sh:2" in str(caught.value)


def test_long_script_is_refused_before_the_kernel_does(tmp_path: Path) -> None:
    script = read_script(written(tmp_path, "#" * SCRIPT_BYTES_MOST + "##"))
    with pytest.raises(UsageError):
        script.command([])


def test_program_needs_no_script() -> None:
    assert command_of(["sh", "-c", "true"]) == (["sh", "-c", "true"], None)


def test_neither_script_nor_program_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        command_of(["no-such-program-or-script"])


def test_file_of_python_is_run_by_the_environment_that_is_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"#SHUNTER --gpus 2\r\nprint()\r\n")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert read_script(path).command(["x"]) == ["python3", str(path), "x"]
    for variable in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        python = tmp_path / variable / "bin/python"
        python.parent.mkdir(parents=True)
        python.touch()
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert read_script(path).interpreter == (str(python),)
    assert read_script(path).words == ("--gpus", "2")


@pytest.mark.parametrize("first", ["#!/usr/bin/env python3", "#!/bin/sh"])
def test_dos_line_is_named_where_a_first_line_names_the_interpreter(
    tmp_path: Path, first: str
) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(f"{first}\nx\r\n".encode())
    with pytest.raises(UsageError, match=r"train\.py:2: the line ends with CR LF"):
        read_script(path)


@pytest.mark.parametrize("name", ["train.sh", "train.py", "train"])
def test_script_of_lines_that_end_with_cr_alone_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"#SHUNTER --gpus 2\rprint()\r")
    with pytest.raises(UsageError, match=rf"{name}:1: the lines end with CR alone.*sed -i"):
        read_script(path)


def test_byte_order_mark_before_the_interpreter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_bytes(b"\xef\xbb\xbf#!/bin/bash\necho\n")
    with pytest.raises(UsageError, match=r"train\.sh:1: .*byte order mark") as caught:
        read_script(path)
    words = str(caught.value).partition(": sed ")[2]
    subprocess.run(["sed", *shlex.split(words)], check=True)
    assert read_script(path).interpreter == ("/bin/bash",)


def test_options_after_a_byte_order_mark_of_a_file_of_python_count(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"\xef\xbb\xbf#SHUNTER --gpus 2\nprint()\n")
    assert read_script(path).words == ("--gpus", "2")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("a.rb", "#!/usr/bin/env ruby, or shunter submit -- ruby "),
        ("a.R", "#!/usr/bin/env Rscript, or shunter submit -- Rscript "),
        ("a.ipynb", "jupyter nbconvert --to script "),
    ],
)
def test_file_of_another_language_without_interpreter_is_not_run_by_a_shell(
    tmp_path: Path, name: str, advice: str
) -> None:
    path = tmp_path / name
    path.write_text("puts 1\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_script(path)
    assert f"{advice}{path}" in str(caught.value)


def test_first_line_of_a_file_of_another_language_says_what_runs_it(tmp_path: Path) -> None:
    path = tmp_path / "a.rb"
    path.write_text("#!/usr/bin/env ruby\nputs 1\n", encoding="utf-8")
    assert read_script(path).command([]) == ["/usr/bin/env", "ruby", str(path)]


def test_lines_of_a_script_end_at_line_feeds_only(tmp_path: Path) -> None:
    script = read_script(written(tmp_path, "#!/bin/sh\n# a\u2028#SHUNTER --gpus 2\x0c\necho\n"))
    assert script.words == ()


def test_compiled_program_is_run_as_it_is() -> None:
    assert command_of([sys.executable, "train.py"]) == ([sys.executable, "train.py"], None)
