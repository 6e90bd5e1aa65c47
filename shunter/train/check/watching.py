"""What a check sees of a script, in the process that runs it: bits, by name, a record a mini-batch.

A record is a line of JSON::

    {"what": "saw", "epoch", "seen": {name: digest}, "chance": {name: digest}}
    {"what": "begins", "seen"}               what was loaded, before the first mini-batch
    {"what": "boundary", "epoch", "whole"}   the run counted a mini-batch
    {"what": "evaluating"}                   a batch of an evaluation
    {"what": "workers"}                      a loader may have any number of workers
    {"what": "asked"}                        here the check asked the run to leave
"""

from __future__ import annotations

import json
import os
import sys
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.train import channel, check, state
from shunter.train.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

DIGEST_BYTES = 12
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, type(None))


class Watcher:
    """Records what a script shows, and asks it to leave at one instant."""

    def __init__(self, records: Path, ask: tuple[str, int] | None, workers: int | None) -> None:
        """Begin to watch.

        Args:
            records: the file of the records.
            ask: the instant: what a record tells ("saw", "boundary", "evaluating"), and the number
                of the mini-batch of this process, from 1, at or after which it comes.
            workers: how many workers loaders have; None: as many as the script says.
        """
        self._file = records.open("a", encoding="utf-8")
        self._ask = ask
        self._workers = workers
        self._count = 0
        self._is_shown = False  # by the script itself, since the boundary before
        self._run: Run | None = None

    def workers(self, number: int) -> int:
        self._write(what="workers")
        return number if self._workers is None else self._workers

    def begins(self, values: Mapping[str, object]) -> None:
        self._write(what="begins", seen=digests(values))

    def saw(self, epoch: int | None, values: Mapping[str, object]) -> None:
        self._count += 1
        self._is_shown = True
        if self._run is not None:
            epoch = self._run.epoch if epoch is None else epoch
            shown = self._run.shown()
            values = {**values, **{name: shown[name] for name in shown if name not in values}}
        chance = {name: digest(each) for name, each in state.chance().items()}
        self._write(what="saw", epoch=epoch, seen=digests(values), chance=chance)
        self._passes("saw")

    def started(self, run: Run) -> None:
        """Take what a run has loaded, if it has."""
        self._run = run
        if run.resumed_from is not None:
            self.begins(run.shown())

    def counts(self, run: Run) -> None:
        """Take a mini-batch that the run is about to count."""
        self._run = run
        if not self._is_shown:
            self.saw(None, {})

    def passed(self, run: Run) -> None:
        """Take a boundary that the run has passed without leaving."""
        self._is_shown = False
        self._write(what="boundary", epoch=run.epoch, whole=bool(run.is_whole()))
        self._passes("boundary")

    def evaluating(self) -> None:
        self._write(what="evaluating")
        self._passes("evaluating")

    def _passes(self, what: str) -> None:
        if self._ask and self._ask[0] == what and self._count >= self._ask[1]:
            self._ask = None
            self._write(what="asked")
            Path(os.environ[channel.SUSPEND]).touch()

    def _write(self, **record: object) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()  # a run leaves by os._exit


def watch(watcher: Watcher) -> None:
    """Have the script's own calls, and every run of this process, reach a watcher."""
    check._watcher = watcher  # noqa: SLF001  the face of this room, which scripts import
    boundary, evaluate, resume = Run.boundary, Run.evaluate, Run.resume

    def counted(run: Run) -> bool:
        watcher.counts(run)
        is_stop = boundary(run)
        if not is_stop:
            watcher.passed(run)
        return is_stop

    def evaluated(run: Run, source: Iterable[Any], *, alone: bool = False) -> Iterator[Any]:
        for batch in evaluate(run, source, alone=alone):
            watcher.evaluating()
            yield batch

    def resumed(run: Run) -> None:
        resume(run)
        watcher.started(run)

    for name, method in (("boundary", counted), ("evaluate", evaluated), ("resume", resumed)):
        setattr(Run, name, method)


def digests(values: Mapping[str, object]) -> dict[str, str]:
    """Return a digest of each value."""
    return {name: _named(name, value) for name, value in values.items()}


def _named(name: str, value: object) -> str:
    try:
        return digest(value)
    except TypeError as error:
        raise TypeError(f"check.saw: {name!r}: {error}") from None


def digest(value: object) -> str:
    """Return hexadecimal digits that two values share if all of their bits are equal.

    Raises:
        TypeError: nobody can say so of it.
    """
    content = blake2b(digest_size=DIGEST_BYTES)
    for piece in _pieces(value):
        content.update(b"%d:" % len(piece))
        content.update(piece)
    return content.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    """Yield a value's bits, with what tells apart values of the same bits."""
    if isinstance(value, float):
        yield value.hex().encode()
    elif isinstance(value, _PLAIN):
        yield repr(value).encode()
    elif isinstance(value, dict):
        yield b"dict"
        for key in value:
            yield repr(key).encode()
            yield from _pieces(value[key])
    elif isinstance(value, (list, tuple)):
        yield b"list %d" % len(value)
        for each in value:
            yield from _pieces(each)
    elif hasattr(value, "detach") and hasattr(value, "cpu"):
        yield from _bits_of(_as_numpy(value.detach().cpu()))
    elif hasattr(value, "__array__"):
        yield from _bits_of(value)
    else:
        yield from _pieces_of_state(value)


def _bits_of(value: Any) -> Iterator[bytes]:
    array = sys.modules["numpy"].asarray(value)
    yield f"{array.dtype} {array.shape}".encode()
    if array.dtype.hasobject:
        yield from _pieces(array.tolist())
    else:
        yield array.tobytes()


def _as_numpy(tensor: Any) -> Any:
    """Return a tensor's bits; numpy has no bfloat16."""
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.contiguous().view(sys.modules["torch"].uint8).numpy()


def _pieces_of_state(value: Any) -> Iterator[bytes]:
    try:
        captured = state.captured(value)
    except TypeError:
        raise TypeError(
            f"of a {type(value).__qualname__} nobody can say whether its bits are equal: show its "
            "arrays, tensors, numbers and texts, or what has state_dict()"
        ) from None
    yield type(value).__qualname__.encode()
    yield from _pieces(captured)
