#!/bin/sh
# AsyncSSH holds all that a host sends if its reader takes small pieces, whatever the channel's window is.
#
# Believed: the receive window of a channel (2 MiB if none is named) bounds what AsyncSSH holds of a program's output that
#   nobody has read yet; a reader that is slower than the host makes the host wait, as its documentation says of
#   `pause_reading`: "buffered locally up to the configured SSH channel window size".
# Seen: a reader that takes pieces of 32 KiB and is slower than the host has AsyncSSH hold nearly all of the output, tens of
#   times the window. Once the reader has taken a piece, reading is resumed, one packet of those that wait in the channel is
#   handed on, and with it the host is granted a whole window, though as much as that still waits. So a process that copies
#   from a quick host to a slow one grows by what is still to be copied, without an error. A reader that takes more than the
#   window with each read (`read(2 * window)`) empties what waits, and AsyncSSH holds two windows at most.
# Not found in its documentation or list of changes.
# Remedy: read more than a window at a time, and keep what is not needed yet.
# Versions: asyncssh 2.24.1, cryptography 50.0.2, Python 3.11. Date: 2026-11-28.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check asyncssh==2.24.1 cryptography==50.0.2
cat > "$folder/try.py" <<'PYTHON'
import asyncio
import sys

import asyncssh
import cryptography

MIB = 1 << 20
ALL, WINDOW = 64 * MIB, 2 * MIB


class Server(asyncssh.SSHServer):
    def begin_auth(self, username):
        return False


async def held(piece):
    """Return how much more was sent at most than the reader had taken."""
    sent = read = most = 0

    async def send(process):
        nonlocal sent
        try:
            while sent < ALL:
                process.stdout.write(b"x" * 32768)
                await process.stdout.drain()
                sent += 32768
        except (asyncssh.Error, OSError):
            pass

    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[key], server_factory=Server, process_factory=send, encoding=None
    )
    port = server.sockets[0].getsockname()[1]
    async with asyncssh.connect(
        "127.0.0.1", port, known_hosts=None, config=None, username="user", client_keys=None
    ) as connection:
        process = await connection.create_process("send", encoding=None, window=WINDOW)
        while read < ALL // 4 and sent < ALL:
            await asyncio.sleep(0.02)  # the host would be quick enough to send a window
            read += len(await process.stdout.read(piece))
            most = max(most, sent - read)
    server.close()
    return most / MIB


print("python", sys.version.split()[0], "asyncssh", asyncssh.__version__, "cryptography", cryptography.__version__)
small, large = asyncio.run(held(32768)), asyncio.run(held(2 * WINDOW))
print(f"window {WINDOW / MIB:g} MiB; held at most by a reader of 32 KiB a time: {small:.1f} MiB")
print(f"window {WINDOW / MIB:g} MiB; held at most by a reader of 4 MiB a time: {large:.1f} MiB")
sys.exit(0 if small > 10 * WINDOW / MIB and large < 5 * WINDOW / MIB else 1)
PYTHON
"$folder/venv/bin/python" "$folder/try.py"
