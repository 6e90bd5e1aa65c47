#!/bin/sh
# A script that ends after Orbax's StandardCheckpointer.save() exits 0 and leaves no checkpoint.
#
# Believed: save() of the class that is called standard may return before all is written (its docstring says that it saves
#   asynchronously), but a script that then ends normally waits for its own threads, as Python does: the checkpoint is there
#   when the process has ended, or the process ends with an error.
# Seen: when the script ends, Python refuses new work to thread pools, which the save in the background still needs. So the
#   save fails, a traceback of a background thread goes to stderr, the process exits 0, and what save() was given cannot be
#   read. By default it first waits five minutes for a signal that no longer comes (the script here sets a timeout of 10 s).
#   A process that leaves by os._exit, as launchers and some signal handlers do, loses it as well, with nothing printed.
# Documented: that the class is asynchronous, and `wait_until_finished` (also at the end of `with`). Not found there: that a
#   script that ends normally loses the checkpoint, and that its exit status is 0 then.
# Remedy: `wait_until_finished()` before whatever tells anybody that the state is saved.
# Versions: orbax-checkpoint 0.12.8, jax and jaxlib 0.10.2, tensorstore 0.1.86, Python 3.11. Date: 2026-11-28.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check \
    orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2 tensorstore==0.1.86
cat > "$folder/job.py" <<'PYTHON'
import os
import pathlib
import sys

import numpy as np
import orbax.checkpoint as ocp

ending, target = sys.argv[1], pathlib.Path(sys.argv[2])
options = ocp.options.AsyncOptions(timeout_secs=10)
checkpointer = ocp.StandardCheckpointer(async_options=options)
checkpointer.save(target, {"weights": np.arange(2_000_000, dtype="float32")})
print("save() has returned; readable:", target.exists(), flush=True)
if ending == "os._exit":
    os._exit(0)
if ending == "wait_until_finished":
    checkpointer.wait_until_finished()
PYTHON
cat > "$folder/try.py" <<'PYTHON'
import importlib.metadata
import pathlib
import subprocess
import sys

import numpy as np
import orbax.checkpoint as ocp

folder = pathlib.Path(sys.argv[1])
print("python", sys.version.split()[0])
for package in ("orbax-checkpoint", "jax", "jaxlib", "tensorstore", "numpy"):
    print(package, importlib.metadata.version(package))
seen = {}
for ending in ("wait_until_finished", "end of the script", "os._exit"):
    target = folder / ending.replace(" ", "-") / "checkpoint"
    target.parent.mkdir()
    job = [sys.executable, folder / "job.py", ending, target]
    done = subprocess.run(job, capture_output=True, text=True, timeout=120)
    try:
        found = ocp.StandardCheckpointer().restore(target)
        readable = bool(np.array_equal(found["weights"], np.arange(2_000_000, dtype="float32")))
    except FileNotFoundError:
        readable = False
    last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
    print(f"{ending}: {done.stdout.strip()}; exit status {done.returncode}; readable afterwards: {readable}")
    print(f"    last line on stderr: {last[-160:]}")
    seen[ending] = (done.returncode, readable)
expected = {"wait_until_finished": (0, True), "end of the script": (0, False), "os._exit": (0, False)}
print("as the head of this script states" if seen == expected else "CHANGED: not what the head of this script states")
sys.exit(seen != expected)
PYTHON
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/try.py" "$folder"
