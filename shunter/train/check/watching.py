"""What a check sees of a script, in the process that runs it: bits, by name, a record a mini-batch.

A record is a line of JSON::

    {"what": "saw", "epoch", "seen": {name: digest}, "chance", "held", "variables", "sources"}
    {"what": "started", "step", "parts", "own", "distributed"}   a run: where it begins, its parts
                                             by name, those of which each rank has its own
    {"what": "begins", "seen"}               what was loaded, before the first mini-batch
    {"what": "batches"}                      a loader is followed by `run.batches`
    {"what": "boundary", "epoch", "whole", "stop"}   the run counted a mini-batch; is it to leave?
    {"what": "evaluating"}                   a batch of an evaluation
    {"what": "workers", "number"}            a loader may have any number of workers; it has these
    {"what": "asked"}                        here the check asked the run to leave
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.train import channel, run, state
from shunter.train.check import showing
from shunter.train.check.holding import held
from shunter.train.digests import digest, digests

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
        # Records from that of a mini-batch on which the script has not shown before its boundary:
        # it may do so after it, as hooks of a module do that come after those of callbacks.
        self._kept: list[dict[str, object]] = []
        self._run: WatchedRun | None = None

    def workers(self, number: int) -> int:
        self._write(what="workers", number=number)
        return number if self._workers is None else self._workers

    def begins(self, values: Mapping[str, object]) -> None:
        self._write(what="begins", seen=digests(values))

    def saw(self, epoch: int | None, values: Mapping[str, object]) -> None:
        if self._kept:
            self._kept[0] = self._record_of(epoch, values)
            self._give()
            return
        self._count += 1
        self._is_shown = True
        self._write(**self._record_of(epoch, values))
        self.reached(self._count)

    def _record_of(self, epoch: int | None, values: Mapping[str, object]) -> dict[str, object]:
        given: Mapping[str, object] = {}
        if self._run is not None:
            epoch = self._run.epoch if epoch is None else epoch
            shown = self._run.shown()
            given = {**self._run.observed(), **self._run.parts}
            values = {**values, **{name: shown[name] for name in shown if name not in values}}
        chance = {name: digest(each) for name, each in state.chance().items()}
        caller = sys._getframe(1)  # noqa: SLF001  there is no other way
        states, variables, sources = held(caller, given)
        return {
            "what": "saw",
            "epoch": epoch,
            "seen": digests(values),
            "chance": chance,
            "held": states,
            "variables": variables,
            "sources": sources,
        }

    def reached(self, count: int) -> None:
        """Hear of a mini-batch of this process, from 1, once and before its boundary."""
        del count
        self._passes("saw")

    def started(self, begun: WatchedRun) -> None:
        """Take what a run consists of, and what it has loaded, if it has."""
        self._run = begun
        distributed: Any = getattr(sys.modules.get("torch"), "distributed", None)
        is_distributed = distributed is not None and distributed.is_available()
        self._write(
            what="started",
            step=begun.steps_done,
            parts=list(begun.parts),
            own=begun.own_parts,
            distributed=is_distributed and distributed.is_initialized(),
        )
        if begun.resumed_from is not None:
            self.begins(begun.shown())

    def counts(self, counted: WatchedRun) -> None:
        """Take a mini-batch that the run is about to count."""
        self._run = counted
        self._give()
        if not self._is_shown:
            self._count += 1
            self._kept = [self._record_of(None, {})]
            self.reached(self._count)
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
        if self._kept:
            self._kept.append(record)
            return
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()  # a run leaves by os._exit

    def ends(self) -> None:
        """Write what is kept: the process is about to end."""
        self._give()

    def _give(self) -> None:
        kept, self._kept = self._kept, []
        for record in kept:
            self._write(**record)


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

    def saved(self, path: Path, size: int) -> None:
        self._watcher().ends()
        super().saved(path, size)

    def resume(self) -> None:
        super().resume()
        self._watcher().started(self)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        # An adapter says what it trains after `start`. Has that been loaded there?
        is_loaded = name == "observed" and self.resumed_from is not None
        if is_loaded and self._parts.load is not None:
            with suppress(Exception):  # what it trains may not be there yet
                self._watcher().begins(self.shown())

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
    atexit.register(watcher.ends)
    run.made_kind = WatchedRun
