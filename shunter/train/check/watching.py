"""What a check sees of a script, in the process that runs it: bits, by name, a record a mini-batch.

A record is a line of JSON::

    {"what": "saw", "epoch", "seen": {name: digest}, "chance", "held", "variables"}
    {"what": "started", "parts", "own", "distributed"}   a run: parts by name, those of each rank
    {"what": "begins", "seen"}               what was loaded, before the first mini-batch
    {"what": "batches"}                      a loader is followed by `run.batches`
    {"what": "boundary", "epoch", "whole", "stop"}   the run counted a mini-batch; is it to leave?
    {"what": "evaluating"}                   a batch of an evaluation
    {"what": "workers"}                      a loader may have any number of workers
    {"what": "asked"}                        here the check asked the run to leave
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.train import channel, run, state
from shunter.train.check import showing
from shunter.train.check.digests import digest, digests
from shunter.train.check.holding import held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shunter.train.batches import Batches


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
        self._run: WatchedRun | None = None

    def workers(self, number: int) -> int:
        self._write(what="workers")
        return number if self._workers is None else self._workers

    def begins(self, values: Mapping[str, object]) -> None:
        self._write(what="begins", seen=digests(values))

    def saw(self, epoch: int | None, values: Mapping[str, object]) -> None:
        self._count += 1
        self._is_shown = True
        parts: Mapping[str, object] = {}
        if self._run is not None:
            epoch = self._run.epoch if epoch is None else epoch
            shown, parts = self._run.shown(), self._run.parts
            values = {**values, **{name: shown[name] for name in shown if name not in values}}
        chance = {name: digest(each) for name, each in state.chance().items()}
        states, variables = held(sys._getframe(1), parts)  # noqa: SLF001  there is no other way
        self._write(
            what="saw",
            epoch=epoch,
            seen=digests(values),
            chance=chance,
            held=states,
            variables=variables,
        )
        self._passes("saw")

    def started(self, begun: WatchedRun) -> None:
        """Take what a run consists of, and what it has loaded, if it has."""
        self._run = begun
        distributed: Any = getattr(sys.modules.get("torch"), "distributed", None)
        is_distributed = distributed is not None and distributed.is_available()
        self._write(
            what="started",
            parts=list(begun.parts),
            own=begun.own_parts,
            distributed=is_distributed and distributed.is_initialized(),
        )
        if begun.resumed_from is not None:
            self.begins(begun.shown())

    def counts(self, counted: WatchedRun) -> None:
        """Take a mini-batch that the run is about to count."""
        self._run = counted
        if not self._is_shown:
            self.saw(None, {})
        self._is_shown = False

    def passed(self, counted: WatchedRun, *, is_stop: bool) -> None:
        """Take a boundary that the run has counted."""
        is_whole = bool(counted.is_whole())
        self._write(what="boundary", epoch=counted.epoch, whole=is_whole, stop=is_stop)
        if not is_stop:
            self._passes("boundary")

    def follows(self) -> None:
        self._write(what="batches")

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


class WatchedRun(run.Run):
    """A run of which a watcher takes what passes."""

    watcher: Watcher | None = None

    def boundary(self) -> bool:
        watcher = self._watcher()
        watcher.counts(self)
        is_stop = super().boundary()
        watcher.passed(self, is_stop=is_stop)
        return is_stop

    def batches(self, source: Iterable[Any], name: str = "") -> Batches[Any]:
        self._watcher().follows()
        return super().batches(source, name)

    def evaluate(self, source: Iterable[Any], *, alone: bool = False) -> Iterator[Any]:
        for batch in super().evaluate(source, alone=alone):
            self._watcher().evaluating()
            yield batch

    def resume(self) -> None:
        super().resume()
        self._watcher().started(self)

    @property
    def parts(self) -> Mapping[str, object]:
        """What the script gave `train.start`, by name."""
        return self._parts.named

    @property
    def own_parts(self) -> list[str]:
        """The parts of which each rank has its own."""
        return self._parts.own()

    def _watcher(self) -> Watcher:
        assert self.watcher is not None
        return self.watcher


def watch(watcher: Watcher) -> None:
    """Have the script's own calls, and every run of this process, reach a watcher."""
    showing.watcher = watcher
    WatchedRun.watcher = watcher
    run.made_kind = WatchedRun
