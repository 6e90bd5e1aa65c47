"""What people are told by a real daemon of a checkpoint that cannot be had, or not be copied."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.api.serving import Served, awaited
from tests.live.ssh.bench import WORKER, Bench
from tests.live.ssh.farm import Farm
from tests.live.ssh.namespaces import Namespaces

pytestmark = [pytest.mark.live, pytest.mark.ssh]

CONFIG = """\
[policy]
trigger = "event"
[backend]
kind = "ssh"
[backend.ssh]
root = "{root}/daemon"
known_hosts = "{farm.known_hosts}"
keys = ["{farm.key}"]
user = "{farm.user}"
python = "{python}"
keepalive = 0.5
heartbeat = 0.5
heartbeat_deadline = 600.0
margin = 3.0
[server]
listen = ["unix:{root}/s", "tcp:127.0.0.1:0"]
token_file = "{root}/tokens"
[log]
url = "{root}/log.db"
"""
HOST = """\
[[cluster.nodes]]
name = "{host.name}"
gpus = 1
[backend.ssh.hosts.{host.name}]
address = "{host.address}"
port = {host.port}
base = "{root}/{host.name}"
"""


# Says a word, and saves a file below more folders than may be copied.
SAVES_DEEP = """
import os, sys, time
if os.environ.get("SHUNTER_RESUME"):
    sys.exit(0)
print("a word", flush=True)
os.makedirs(os.environ["SHUNTER_CHECKPOINT_DIR"] + "/d" * 201)
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
sys.exit(75)
"""


class OverSsh(Served):
    """A daemon whose cluster are the hosts of a farm."""

    def __init__(self, root: Path, farm: Farm) -> None:
        super().__init__(root)
        text = CONFIG.format(root=root, farm=farm, python=sys.executable)
        text += "".join(HOST.format(root=root, host=host) for host in farm.hosts.values())
        self.config.write_text(text, encoding="utf-8")


@pytest.fixture
def served(network: tuple[Bench, Namespaces]) -> Iterator[tuple[Served, Namespaces]]:
    bench, farm = network
    with OverSsh(bench.folder, farm) as daemon:
        yield daemon, farm


def row_of(served: Served, job_id: str) -> dict[str, object]:
    rows = json.loads(served.run("queue", "--json").stdout)["jobs"]
    return next((row for row in rows if row["id"] == job_id), {})


def in_state(served: Served, job_id: str, state: str) -> Callable[[], bool]:
    return lambda: row_of(served, job_id).get("state") == state


def test_owner_gives_a_checkpoint_up_on_the_command_line(
    served: tuple[Served, Namespaces],
) -> None:
    daemon, farm = served
    for node in ("n1", "n2"):
        assert daemon.run("nodes", "drain", node).returncode == 0
    words = ("--", sys.executable, "-I", "-S", "-c", WORKER, str(daemon.root), "0.3", "-1")
    job_id = daemon.run("submit", "--parsable", *words).stdout.strip()
    awaited(in_state(daemon, job_id, "running"))
    assert daemon.run("suspend", job_id).returncode == 0
    awaited(in_state(daemon, job_id, "held"))
    farm.cut("n0")
    awaited(lambda: "unreachable" in daemon.run("nodes").stdout)
    assert daemon.run("nodes", "restore", "n1").returncode == 0
    assert daemon.run("resume", job_id).returncode == 0
    awaited(in_state(daemon, job_id, "suspended"))
    told = daemon.run("queue", "--explain").stdout
    assert "its checkpoint lies on a server that does not answer; n0" in told
    refused = daemon.run("resume", job_id)
    assert refused.returncode == 5, refused.stderr
    assert "discard-checkpoint" in refused.stderr
    given_up = daemon.run("discard-checkpoint", job_id)
    assert given_up.stdout == f"{job_id} goes on without the checkpoint\n", given_up.stderr
    awaited(in_state(daemon, job_id, "running"))
    told = daemon.run("show", job_id).stdout
    assert "what attempt 1 had saved was discarded at" in told
    assert "gave it up while n0 did not answer" in told
    assert "the checkpoint that attempt 1 saved on n0 was discarded" in (
        daemon.run("why", job_id).stdout
    )
    assert daemon.run("cancel", job_id).returncode == 0


def test_owner_reads_which_folder_is_not_copied_and_has_it_copied_once_it_is_packed(
    bench: Bench,
) -> None:
    """Goal: `show` and `logs` say the whole reason, and what to do."""
    with OverSsh(bench.folder, bench.farm) as daemon:
        for node in ("n1", "n2"):
            assert daemon.run("nodes", "drain", node).returncode == 0
        words = ("--", sys.executable, "-I", "-S", "-c", SAVES_DEEP)
        job_id = daemon.run("submit", "--parsable", *words).stdout.strip()
        awaited(lambda: daemon.run("logs", job_id).stdout == "a word\n")
        (place,) = sorted((bench.folder / "n0").glob(f"clusters/*/jobs/{job_id}/checkpoints"))
        awaited((place / ("d/" * 201)).is_dir)
        assert daemon.run("suspend", job_id).returncode == 0
        awaited(in_state(daemon, job_id, "held"))
        assert "was not launched" not in daemon.run("show", job_id).stdout
        assert daemon.run("nodes", "drain", "n0").returncode == 0
        assert daemon.run("nodes", "restore", "n1").returncode == 0
        assert daemon.run("resume", job_id).returncode == 0
        awaited(lambda: "was not launched: " in daemon.run("show", job_id).stdout)
        (line,) = [
            line
            for line in daemon.run("show", job_id).stdout.splitlines()
            if "was not launched: " in line
        ]
        assert f"{place} has folders more than 200 deep; it stays where it is" in line
        assert "on host n0 the job goes on without a copy" in line
        printed = daemon.run("logs", job_id)
        assert (printed.returncode, printed.stdout) == (0, "")
        assert "was never launched: the checkpoint of job" in printed.stderr
        assert printed.stderr.endswith("; attempt 1 has output (--attempt 1)\n")
        assert daemon.run("logs", job_id, "--attempt", "1").stdout == "a word\n"
        (place / "d").rename(bench.folder / "packed")
        (place / "packed").touch()
        assert daemon.run("resume", job_id).returncode == 0
        awaited(lambda: not row_of(daemon, job_id))
