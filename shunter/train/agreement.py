"""How the ranks of a job agree on the boundary to stop at.

Boundaries are counted from the start of the attempt (`tick`): a mini-batch of training, or one of
an evaluation that every rank does. All ranks must stop at the same one, or the next collective
call waits for ever; so nobody may wait inside a boundary for others that are still computing.

Through files (`FileAgreement`): a rank that sees the request writes its tick as its vote
and goes on, with a new vote at each boundary. The first one that sees all votes creates the stop
file, exactly once, with the highest vote plus one. A rank votes *before* it reads the others, so
whoever decides has seen the latest vote of every rank that did not yet see his: nobody can be past
the stop. Once a rank has ended no checkpoint can be whole, and the others train to their end too.
Alone, a rank stops where it is.

Through torch.distributed (`TorchAgreement`): at each boundary an asynchronous all-reduce (max) of
the request's number is begun, and read at the next one: the highest rank's boundary plus one,
hidden behind a mini-batch. It runs in a group of its own on the CPU (gloo), which neither waits
for the GPU nor mixes with the script's collectives. Every rank must pass the same boundaries.

Ranks that share GPUs in turns agree in the same ways on where a turn ends, by the number of the
order that ends it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Document = Mapping[str, object]

# Without torch.distributed ranks talk through files in a folder they share. REQUEST counts the
# requests of an attempt from 1, RANK the ranks from 0::
#
#     vote.REQUEST.RANK.json      the boundary this rank was at
#     stop.REQUEST.json           the boundary agreed on, created exactly once
#     saved.REQUEST.RANK.json     this rank's part of the checkpoint is written
#     failed.REQUEST.RANK.json    it could not be
#     ended.RANK.json             this rank comes to no further boundary
#
# Nothing is synced: nobody goes on with the folder of a machine that died.


def votes_folder(checkpoints: Path, attempt: int) -> Path:
    """Return where the ranks of an attempt meet."""
    return checkpoints / f"attempt-{attempt:06}" / "votes"


def vote_path(folder: Path, kind: str, request: int, rank: int) -> Path:
    """Return where a rank puts its answer of a kind to a request."""
    return folder / f"{kind}.{request}.{rank}.json"


def put_document(path: Path, document: Document) -> None:
    """Write a small file whole: a reader sees the old one or this one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        temporary.write_text(json.dumps(document))
        os.replace(temporary, path)  # noqa: PTH105  Path.replace is the same call, and slower
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def create_document(path: Path, document: Document) -> bool:
    """Write a small file whole unless it is there; say whether we were first."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    temporary.write_text(json.dumps(document))
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def read_document(path: Path) -> dict[str, Any] | None:
    """Return what a file says; None where it is absent or no JSON object."""
    try:
        document = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def ranks_that(folder: Path, kind: str, request: int) -> set[int]:
    """Return the ranks that have put an answer of a kind to a request."""
    names = [path.name.split(".") for path in sorted(folder.glob(f"{kind}.{request}.*.json"))]
    return {int(name[2]) for name in names if name[2].isdigit()}


WAIT_S = 120.0
_LOOK_EVERY_S = 0.02


class Agreement(Protocol):
    """What a run asks of the other ranks."""

    def stops(self, tick: int, request: int) -> int:
        """Return the request to stop for here, or 0; `request` is 0 if none was seen."""

    def ends_turn(self, tick: int, number: int) -> int:
        """Return the order by which the turn ends here, or 0.

        `number` is that of the order that this rank has seen, 0 if none.
        """

    def all_saved(self, request: int, *, saved: bool) -> bool:
        """Wait for the others, and say whether every rank has saved."""

    def ends(self) -> None:
        """Tell the others that this rank comes to no further boundary."""


class Alone:
    """The agreement of a job of one rank."""

    def stops(self, tick: int, request: int) -> int:
        return request

    def ends_turn(self, tick: int, number: int) -> int:
        return number

    def all_saved(self, request: int, *, saved: bool) -> bool:
        return saved

    def ends(self) -> None:
        return


class FileAgreement:
    """Agreement by files in a folder that all ranks share (see `vote_path`)."""

    def __init__(self, folder: Path, rank: int, world: int, wait_s: float = WAIT_S) -> None:
        self._folder = folder
        self._rank = rank
        self._world = world
        self._wait_s = wait_s
        self._turn_ended = 0

    def ends_turn(self, tick: int, number: int) -> int:
        agreed = self.stops(tick, number) if number != self._turn_ended else 0
        if agreed:  # there are many turns: what nobody reads any more is removed
            vote_path(self._folder, "vote", agreed, self._rank).unlink(missing_ok=True)
            if not self._rank and self._turn_ended:
                self._stop_path(self._turn_ended).unlink(missing_ok=True)
            self._turn_ended = agreed
        return agreed

    def stops(self, tick: int, request: int) -> int:
        if not request:
            return 0
        stop_path = self._stop_path(request)
        if not stop_path.exists():
            own = vote_path(self._folder, "vote", request, self._rank)
            put_document(own, {"tick": tick})
            highest = self._highest(request)
            if highest is None:
                return 0
            create_document(stop_path, {"tick": highest + 1})
        stop = read_document(stop_path)
        return request if stop is not None and tick >= int(stop["tick"]) else 0

    def all_saved(self, request: int, *, saved: bool) -> bool:
        """Say how it went; wait until all have saved, one failed, or time is over."""
        try:
            kind = "saved" if saved else "failed"
            put_document(vote_path(self._folder, kind, request, self._rank), {})
        except OSError:
            return False  # nobody can know of it: the others give up as well
        until = time.monotonic() + self._wait_s
        while saved and not ranks_that(self._folder, "failed", request):
            if len(ranks_that(self._folder, "saved", request)) >= self._world:
                return True
            if self._is_one_ended() or time.monotonic() > until:
                break
            time.sleep(_LOOK_EVERY_S)
        return False

    def _highest(self, request: int) -> int | None:
        """Return the highest vote, or None while one is missing: then no more are read.

        A rank may vote again while others are read, and go on since one was missing: only two
        readings that are alike tell what all votes were at one instant.
        """
        before: list[int] = []
        while True:
            ticks = []
            for rank in range(self._world):
                vote = read_document(vote_path(self._folder, "vote", request, rank))
                if vote is None:
                    return None
                ticks.append(int(vote["tick"]))
            if ticks == before:
                return max(ticks)
            before = ticks

    def _stop_path(self, request: int) -> Path:
        return self._folder / f"stop.{request}.json"

    def ends(self) -> None:
        put_document(self._folder / f"ended.{self._rank}.json", {})

    def _is_one_ended(self) -> bool:
        return bool(sorted(self._folder.glob("ended.*.json")))


class Work(Protocol):
    """A reduction under way, as torch.distributed has it."""

    def wait(self) -> object:
        """Wait until it is done."""


class Count(Protocol):
    """A tensor of one whole number."""

    def item(self) -> int:
        """Return the number."""


class TorchAgreement:
    """Agreement by torch.distributed, over any number of machines."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._group = torch.distributed.new_group(backend="gloo")
        self._begun: dict[str, tuple[Work, Count]] = {}
        import ctypes  # only where ranks need it: it takes milliseconds

        self._reductions: deque[object] = deque(maxlen=4)
        # The last ones are never dropped, not even by an interpreter that ends: a thread of gloo
        # may drop them too, and if it needs the interpreter then, it aborts the process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._reductions))

    def stops(self, tick: int, request: int) -> int:
        return self._highest("stop", request)

    def ends_turn(self, tick: int, number: int) -> int:
        return self._highest("turn", number)

    def _highest(self, kind: str, value: int) -> int:
        """Return the highest value of all ranks at the boundary before; 0 begins anew."""
        asked, begun = 0, self._begun.pop(kind, None)
        if begun is not None:
            work, highest = begun
            work.wait()
            asked = int(highest.item())
        if not asked:
            self._begun[kind] = self._reduce(value, blocking=False)
        return asked

    def all_saved(self, request: int, *, saved: bool) -> bool:
        _, failures = self._reduce(int(not saved), blocking=True)
        return not failures.item()

    def ends(self) -> None:
        self._begun.clear()

    def _reduce(self, value: int, *, blocking: bool) -> tuple[Work, Count]:
        number = self._torch.tensor([value], dtype=self._torch.int64)
        distributed = self._torch.distributed
        work = distributed.all_reduce(
            number, op=distributed.ReduceOp.MAX, group=self._group, async_op=not blocking
        )
        self._reductions.append((work, number))
        return work, number


def agreement(folder: Path, rank: int, world: int) -> Agreement:
    """Return how the ranks of this job agree."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return TorchAgreement(torch) if distributed.get_world_size() > 1 else Alone()
    return FileAgreement(folder, rank, world) if world > 1 else Alone()
