from pathlib import Path

import pytest

from shunter.app.cli.live.submitting.script import SCRIPT_BYTES_MOST, command_of, read_script
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


def test_line_of_a_script_ends_at_a_line_feed_and_at_nothing_else(tmp_path: Path) -> None:
    text = "# about\u2028#SHUNTER --gpus 64\n#SHUNTER --gpus 2\n"
    assert read_script(written(tmp_path, text)).words == ("--gpus", "2")
