"""The agent as one file: the same bytes each time, and it works on a bare, old Python."""

import io
import json
import marshal
import os
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.live import NODE, NOT_PACKED, digest, zip_application
from shunter.backends.node import FOLDER, VERBS, Command, attempts, folder_of, read_journal
from tests.faults.supervised import wait_for
from tests.unit.backends.node.orders import order_of, rank_of

PATIENCE_S = 20.0


@cache
def old_python(version: str = "3.8") -> str | None:
    """Return a Python of this machine that really starts (a version manager's may not)."""
    name = f"python{version}"
    managed = sorted(
        Path(os.environ.get("HOME", "/"), ".pyenv/versions").glob(f"{version}.*/bin/{name}")
    )
    for candidate in [shutil.which(name), *reversed(managed)]:
        if candidate is None:
            continue
        ran = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        said = ran.stdout or ran.stderr  # where a Python 2 says it
        if ran.returncode == 0 and said.startswith(f"Python {version}."):
            return str(candidate)
    return None


PYTHONS = [
    pytest.param(sys.executable, id="this"),
    pytest.param(
        old_python(),
        id="3.8",
        marks=pytest.mark.skipif(not old_python(), reason="install a Python 3.8, such as by pyenv"),
    ),
]


@cache
def application() -> bytes:
    """Return the file, which is compiled once for all tests of a process."""
    return zip_application()


def packed() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(application()))


def test_file_is_the_same_every_time_and_under_every_hash_seed() -> None:
    program = (
        "from shunter.backends.live.transport import digest, zip_application; "
        "print(digest(zip_application()), end='')"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
            umask=mask,
        ).stdout
        for seed, zone, mask in (("1", "UTC", 0o22), ("2", "Asia/Tokyo", 0o77))
    }
    assert digests == {digest(application())}


def test_every_module_of_the_folder_is_packed_as_it_is() -> None:
    archive, inside = packed(), {}
    for path in sorted(NODE.rglob("*.py")):
        inside[path.relative_to(NODE).as_posix()] = path.read_bytes()
    for name in NOT_PACKED:
        del inside[name]
    folder = FOLDER.replace(".", "/")
    assert {name: archive.read(f"{folder}/{name}") for name in inside} == inside
    around = ["__main__.py", "shunter/__init__.py", "shunter/backends/__init__.py"]
    sources = [name for name in archive.namelist() if name.endswith(".py")]
    assert sources == sorted([f"{folder}/{name}" for name in inside] + around)


def test_nothing_is_compressed_since_another_zlib_would_give_other_bytes() -> None:
    assert {each.compress_type for each in packed().infolist()} == {zipfile.ZIP_STORED}


FINDS = """
import importlib, os, sys
sys.path.insert(0, sys.argv[1])
for verb, place in (word.split("=") for word in sys.argv[2:]):
    if os.fork() == 0:
        module, _, name = place.partition(":")
        found = importlib.import_module(module)
        print(verb, callable(getattr(found, name)), found.__file__, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_every_verb_is_found_in_the_file(tmp_path: Path, python: str) -> None:
    """Goal: a verb finds all it imports. Method: load each function, on its own, from the file."""
    file = tmp_path / "agent.pyz"
    file.write_bytes(application())
    places = [f"{verb}={FOLDER}.{place}" for verb, place in VERBS.items()]
    command = [python, "-I", "-S", "-c", FINDS, str(file), *places]
    said = subprocess.check_output(command, text=True, cwd=tmp_path).splitlines()
    found = {line.split()[0]: line.split()[1:] for line in said}
    assert list(found) == list(VERBS)
    # What was compiled for one version is of no use to another, which goes by the source.
    ending = ".pyc" if python == sys.executable else ".py"
    for verb, (is_callable, path) in found.items():
        is_of_the_file = path.startswith(f"{file}/") and path.endswith(ending)
        assert (is_callable, is_of_the_file) == ("True", True), verb


def test_code_beside_a_module_is_what_its_source_says() -> None:
    archive = packed()
    compiled = [name for name in archive.namelist() if name.endswith(".pyc")]
    if sys.version_info < (3, 14):  # which has constants that the format does not know
        folder = FOLDER.replace(".", "/")
        assert [name[:-1] for name in compiled] == [
            name for name in archive.namelist() if name.startswith(folder) and name.endswith(".py")
        ]
    for name in compiled:
        found = archive.read(name)
        source = archive.read(name[:-1])
        assert found[:16] == MAGIC_NUMBER + b"\x01\0\0\0" + source_hash(source)
        code = marshal.loads(found[16:])
        assert code == compile(source, name[:-1], "exec", dont_inherit=True)
        assert code.co_filename == name[:-1]


@pytest.mark.parametrize("version", ["3.7"])
def test_older_python_says_that_it_is_too_old(tmp_path: Path, version: str) -> None:
    python = old_python(version)
    if python is None:
        pytest.skip(f"install a Python {version}, such as by pyenv")
    file = tmp_path / "agent.pyz"
    file.write_bytes(application())
    ran = subprocess.run(
        [python, "-I", "-S", str(file), "term", str(tmp_path), "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.endswith("SyntaxError: the agent of Shunter needs Python 3.8 or later\n")


@pytest.mark.live
@pytest.mark.parametrize("python", PYTHONS)
def test_file_alone_runs_an_attempt(tmp_path: Path, python: str) -> None:
    """Goal: the file alone is enough. Method: it starts one away from the package, with -I -S."""
    file, root = tmp_path / "agent.pyz", str(tmp_path / "root")
    file.write_bytes(application())

    def starts(order: object) -> dict[str, Any]:
        ran = subprocess.run(
            [python, "-I", "-S", str(file), "start", root],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            cwd=tmp_path,
        )
        assert ran.returncode == 0, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    waits = "while ! test -e $SHUNTER_SUSPEND; do sleep 0.02; done; exit 75"
    order = order_of(term=3, ranks=[rank_of("/bin/sh", "-c", waits)])
    folder = folder_of(root, "j0", 1)
    assert attempts.raise_term(root, 3) == 3
    assert attempts.probe(folder).state == "absent"
    assert starts(order) == {"answer": "started"}
    assert starts(order) == {"answer": "known"}
    assert attempts.probe(folder).state == "running"
    assert attempts.send(folder, Command(do="suspend", term=3))
    wait_for(lambda: attempts.probe(folder).state == "ended", "its end")
    (known,) = attempts.inventory(root)
    assert known.status is not None
    assert known.status.suspended
    assert [note.what for note in read_journal(folder).notes] == ["requested"]
    assert attempts.raise_fence(root, "j0", 2) == 2
    assert starts({**order, "attempt": 2})["answer"] == "refused"
    assert attempts.sweep(folder) == 0
