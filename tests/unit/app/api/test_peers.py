"""Connections of users: one of them cannot have all that there may be."""

import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from shunter.api import SHARE, PeerProtocol
from tests.faults.supervised import wait_for

STRANGER, MOST = 65_533, 16
# Opens some connections at once, and then asks on each of them; prints the answers.
ASKS = """
import socket, sys
opened = []
for _ in range(int(sys.argv[2])):
    one = socket.socket(socket.AF_UNIX)
    one.connect(sys.argv[1])
    opened.append(one)
for one in opened:
    try:
        one.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    except OSError:
        pass
    print(one.recv(4096).split()[1].decode())
"""


@pytest.fixture
def services() -> Iterator[Path]:
    """A socket at which everybody is answered."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        path = Path(folder) / "s"
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        path.chmod(0o666)
        config = uvicorn.Config(
            answer, http=PeerProtocol, lifespan="off", log_config=None, limit_concurrency=MOST
        )
        server = uvicorn.Server(config)
        serving = threading.Thread(target=server.run, args=([listening],))
        serving.start()
        wait_for(lambda: server.started, "a server")
        yield path
        server.should_exit = True
        serving.join()


@pytest.mark.needs("root")
def test_user_has_a_part_of_all_connections_at_most(services: Path) -> None:
    """Method: a user opens twice as many as that, and root, who asks meanwhile, is answered."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("needs a Python that everybody may run")
    part = MOST // SHARE
    argv = [python, "-ISc", ASKS, str(services), str(2 * part)]
    for user, expected in ((STRANGER, part), (None, 2 * part)):
        ran = subprocess.run(argv, user=user, cwd="/", capture_output=True, text=True, check=True)
        assert ran.stdout.split() == ["200"] * expected + ["503"] * (2 * part - expected)
