"""A function's job where its Python lacks what the call needs."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

from shunter.client import called


def test_missing_package_is_named_with_the_python_that_lacks_it(tmp_path: Path) -> None:
    program = tmp_path / "called.py"
    shutil.copy(called.__file__, program)
    lacking = b"cpackage_of_nowhere\nfunction\n."
    (tmp_path / called.CALL).write_bytes(pickle.dumps([]) + lacking)
    ran = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 1
    first = ran.stderr.splitlines()[0]
    assert first.startswith(f"the Python of this job, {sys.executable}, lacks package_of_nowhere")


def test_missing_cloudpickle_is_named_before_the_function_is_called(tmp_path: Path) -> None:
    """Goal: it is not noticed after hours of work. Method: a Python without its packages."""
    program = tmp_path / "called.py"
    shutil.copy(called.__file__, program)
    marker = tmp_path / "was-called"
    call = pickle.dumps([]) + pickle.dumps((Path.touch, (marker,), {}))
    (tmp_path / called.CALL).write_bytes(call)
    ran = subprocess.run(
        [sys.executable, "-I", "-S", str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, marker.exists()) == (1, False)
    assert ran.stderr.startswith(f"the Python of this job, {sys.executable}, lacks cloudpickle")
    assert "Traceback" not in ran.stderr
