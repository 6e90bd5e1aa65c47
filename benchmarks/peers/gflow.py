"""Short jobs in gflow 0.4 on this machine: how many begin and end in a second.

    python -m benchmarks.peers.gflow [--jobs 50]

The jobs are an array of `true`; what is measured is from its submission until `gqueue` shows the
end of the last. gflow runs each job in a session of tmux, all at once, since they want no GPUs. It
needs tmux and `pip install runqd==0.4.18`. Prints JSON.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENDED = {"Finished", "Failed", "Cancelled", "Timeout"}
POLL_S = 0.1
PATIENCE_S = 300


def lacking() -> str:
    """Return what is not installed; empty: nothing."""
    if _programs() is None:
        return "not installed: pip install runqd==0.4.18"
    return "" if shutil.which("tmux") else "not installed: apt-get install tmux"


def jobs_per_s(jobs: int) -> float:
    """Run so many jobs, and return how many ended in a second."""
    programs = _programs()
    assert programs is not None, "asked only where nothing is lacking"
    # What gflow has begun may still write there when its daemon has ended.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = _environment(folder, programs)
        command = [str(programs / "gflowd"), "--config", str(folder / "gflow.toml")]
        daemon = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        try:
            while _states(programs, environment) is None:
                assert daemon.poll() is None, "gflowd ended"
                time.sleep(POLL_S)
            begun_s = time.monotonic()
            words = ["--array", f"1-{jobs}", "--auto-close", "true"]
            subprocess.run(
                [programs / "gbatch", *words],
                cwd=folder,
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            while sum(each in ENDED for each in _states(programs, environment) or ()) < jobs:
                assert time.monotonic() < begun_s + PATIENCE_S, "jobs of gflow do not end"
                time.sleep(POLL_S)
            return jobs / (time.monotonic() - begun_s)
        finally:
            daemon.terminate()
            daemon.wait()
            # The server of this folder alone.
            subprocess.run(
                ["tmux", "kill-server"], env=environment, check=False, capture_output=True
            )


def _programs() -> Path | None:
    """Return the folder in which gflow is."""
    beside, found = Path(sys.executable).parent, shutil.which("gflowd")
    if (beside / "gflowd").exists():
        return beside
    return None if found is None else Path(found).parent


def _environment(folder: Path, programs: Path) -> dict[str, str]:
    """Write gflow's settings, and return an environment in which all of it is in a folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "gflow.toml"
    config.write_text(f'[daemon]\nhost = "127.0.0.1"\nport = {port}\n', encoding="utf-8")
    (folder / "gflow").mkdir()
    shutil.copy(config, folder / "gflow" / "gflow.toml")
    # A job says that it ended by `gcancel`, from a login shell, which sets PATH anew.
    path = f"{programs}:{os.environ['PATH']}"
    (folder / ".bash_profile").write_text(f"export PATH={path}\n", encoding="utf-8")
    names = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "TMUX_TMPDIR")
    own = dict.fromkeys(names, str(folder))
    return os.environ | own | {"PATH": path, "SHELL": "/bin/bash"}


def _states(programs: Path, environment: dict[str, str]) -> list[str] | None:
    """Return the states of all jobs; None: the daemon does not answer yet."""
    asked = subprocess.run(
        [programs / "gqueue", "--all", "--output", "json"],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if asked.returncode:
        return None
    # Without jobs it prints words.
    return [job["state"] for job in json.loads(asked.stdout)["jobs"]] if "{" in asked.stdout else []


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50)
    jobs = parser.parse_args().jobs
    if lack := lacking():
        sys.exit(lack)
    print(json.dumps({"benchmark": "gflow", "jobs": jobs, "per_s": round(jobs_per_s(jobs), 2)}))


if __name__ == "__main__":
    main()
