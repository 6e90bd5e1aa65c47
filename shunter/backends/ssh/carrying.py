"""Checkpoints that go with a job to another host, where the hosts share no folder.

What the last attempt left, on the hosts of all its ranks, is made to lie on every host of the next:
the files that differ are read and written over SFTP, piece by piece through this machine without
resting on it, and take the place of what was there only once size and digest of all are right.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio

from shunter.backends.node.crashes import crash_point
from shunter.backends.ssh.connecting import UnreachedError
from shunter.backends.ssh.link import Link
from shunter.backends.ssh.orders import checkpoints_of
from shunter.backends.ssh.settings import SshSettings
from shunter.errors import BackendError
from shunter.events.values.ids import JobId, NodeName, UserName

__all__ = ["Carrier"]

Record = dict[str, Any]
PIECE_BYTES = 1 << 20
DIGEST_S = 3600.0  # for reading all of a checkpoint: hours of it are a disk that hangs


class Carrier:
    """Carries checkpoints between hosts."""

    def __init__(self, settings: SshSettings, links: Mapping[NodeName, Link]) -> None:
        self._settings = settings
        self._links = links

    async def carry(
        self,
        job_id: JobId,
        user: UserName,
        sources: Sequence[tuple[NodeName, ...]],
        targets: tuple[NodeName, ...],
    ) -> None:
        """Have the newest checkpoints that can be had on all hosts of an attempt.

        Args:
            job_id: whose.
            user: who is to own them.
            sources: the hosts of earlier attempts, the newest first.
            targets: the hosts of the next.
        Raises:
            BackendError: they cannot be brought there now.
        """
        if self._settings.checkpoints:
            return
        for nodes in sources:
            if nodes == targets:
                return
            if not all(self._links[node].is_up for node in nodes):
                continue  # an older one, or the start, is better than none
            files = await self._files(job_id, nodes)
            if files:
                for target in targets:
                    await self._bring(job_id, user, files, target)
                return

    async def _files(
        self, job_id: JobId, nodes: tuple[NodeName, ...]
    ) -> dict[str, tuple[NodeName, Record]]:
        """Return all files by path, each with the host of the lowest rank that has it."""
        found: dict[str, tuple[NodeName, Record]] = {}
        for node in nodes:
            for file in await self._manifest(job_id, node):
                found.setdefault(file["path"], (node, file))
        return found

    async def _manifest(self, job_id: JobId, node: NodeName) -> list[Record]:
        folder = self._folder(job_id, node)
        answer = await self._links[node].run_verb("manifest", folder, limit_s=DIGEST_S)
        files: list[Record] = answer["files"]
        return files

    async def _bring(
        self,
        job_id: JobId,
        user: UserName,
        files: Mapping[str, tuple[NodeName, Record]],
        target: NodeName,
    ) -> None:
        """Make the folder on one host hold these files, or leave it as it was."""
        folder, link = self._folder(job_id, target), self._links[target]
        await link.run_verb("clear", folder, limit_s=DIGEST_S)
        there = {file["path"]: file for file in await self._manifest(job_id, target)}
        missing = [
            (node, file)
            for path, (node, file) in files.items()
            if not file["link"] and not _is_same(there.get(path), file)
        ]
        if not missing and there.keys() == files.keys():
            return
        incoming = f"{folder}.incoming.{secrets.token_hex(4)}"
        numbers = {file["path"]: number for number, (_, file) in enumerate(missing)}
        try:
            await self._copy(job_id, missing, target, incoming)
        except BackendError:
            with suppress(BackendError):  # or the next try does it
                await link.run_verb("clear", folder, limit_s=self._settings.call_s)
            raise
        listed = [
            {**file, "number": numbers.get(path)} for path, (_, file) in sorted(files.items())
        ]
        parcel = {"incoming": incoming, "user": user, "files": listed}
        crash_point(f"copied checkpoints of {job_id}")
        answer = await link.run_verb("receive", folder, limit_s=DIGEST_S, told=parcel)
        crash_point(f"received checkpoints of {job_id}")
        if "error" in answer:
            raise BackendError(
                f"the checkpoint of job {job_id} did not arrive on {target}: {answer['error']}",
                retryable=True,
            )

    async def _copy(
        self, job_id: JobId, missing: list[tuple[NodeName, Record]], to: NodeName, incoming: str
    ) -> None:
        import asyncssh

        try:
            async with AsyncExitStack() as open_here:
                limit_s = self._settings.call_s
                # In order of name: copies in opposite directions must not wait for each other's
                # channels, of which a host has few.
                clients = {
                    node: await open_here.enter_async_context(self._links[node].sftp(limit_s))
                    for node in sorted({to, *(node for node, _ in missing)})
                }
                with anyio.fail_after(limit_s):
                    await clients[to].makedirs(incoming, exist_ok=True)
                for number, (node, file) in enumerate(missing):
                    path = f"{self._folder(job_id, node)}/{file['path']}"
                    await _copied(clients[node], path, clients[to], f"{incoming}/{number}", limit_s)
        except (asyncssh.Error, OSError, TimeoutError, UnicodeError) as error:
            raise UnreachedError(
                f"the checkpoint of job {job_id} cannot be copied to {to}: {error!r}"
            ) from error

    def _folder(self, job_id: JobId, node: NodeName) -> str:
        return checkpoints_of(self._settings, self._links[node].root, job_id)


async def _copied(source: Any, path: str, target: Any, to: str, limit_s: float) -> None:
    """Copy one file; each piece has a deadline, since the whole may be of any size."""
    with anyio.fail_after(limit_s):
        reader, writer = await source.open(path, "rb"), await target.open(to, "wb")
    try:
        offset = 0
        while True:
            with anyio.fail_after(limit_s):
                piece = await reader.read(PIECE_BYTES, offset)
                if not piece:
                    await writer.fsync()
                    return
                await writer.write(piece, offset)
            offset += len(piece)
    finally:
        with anyio.move_on_after(1.0, shield=True):
            await reader.close()
            await writer.close()


def _is_same(there: Record | None, file: Record) -> bool:
    return there is not None and all(there[name] == file[name] for name in ("size", "digest"))
