"""A training run as Shunter sees it: it counts steps, reports them, and stops when asked.

    from shunter import train

    run = train.start(model=model, optimizer=optimizer)     # loads the last checkpoint, if any
    for epoch in run.epochs(10):
        for batch in run.batches(loader):
            ...
            run.step()                                      # may save, and exit with 75

Outside Shunter nothing is written or read, unless `checkpoints` names a folder.
"""

from __future__ import annotations

import atexit
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from shunter.train import channel, loaders, serialization, state
from shunter.train.agreement import Agreement, TorchAgreement, agreement, votes_folder
from shunter.train.batches import AllBatches, Shards, check_other_ranks
from shunter.train.channel import Requests
from shunter.train.checkpoints import Checkpoints, tree_bytes
from shunter.train.faults import SIZES, Incomplete, Overdue, in_words, is_growing
from shunter.train.leaving import alive, leave_at_once, wait_for_writers
from shunter.train.state import Parts, ranks
from shunter.train.surroundings import Surroundings, check_workers
from shunter.train.turns import device, turns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from shunter.train.batches import Batches
    from shunter.train.state import Whole
    from shunter.train.turns import Move, Turns

    T = TypeVar("T")


def start(
    *,
    save: Whole | None = None,
    prove: Whole | None = None,
    load: Whole | None = None,
    is_whole: Callable[[], bool] | None = None,
    replicated: Collection[str] = (),
    made_with: Mapping[str, str] | None = None,
    save_every: int = 0,
    checkpoints: str | os.PathLike[str] | None = None,
    leave: Callable[[], NoReturn] | None = None,
    move: Move | None = None,
    **parts: object,
) -> Run:
    """Begin or resume a run, and return it.

    Args:
        save: writes what is no part into a folder; called on every rank.
        prove: raises where what `save` has written could not be read again.
        load: reads it again.
        is_whole: says at a boundary whether all of a mini-batch is in what is saved; always, by
            default.
        made_with: the version of each library in whose format `save` writes, by its name. A
            checkpoint of other libraries is refused; of other versions there is a warning.
        replicated: names of parts that are equal on all ranks; rank 0 alone saves them.
        save_every: also save each so many steps, without stopping.
        checkpoints: the folder; under Shunter the environment's is the default.
        leave: ends the process; `os._exit(75)` after a flush by default.
        move: puts the run on a device, so that its turns may be on any (`shunter.train.turns`).
        parts: what the checkpoint holds, by name (see `shunter.train.state`).
    """
    environment = os.environ
    line = environment.get(channel.CHANNEL)
    folder = checkpoints or environment.get(channel.CHECKPOINTS)
    rank = channel.number_in(environment, channel.RANK, 0)
    world = channel.number_in(environment, channel.WORLD, 1)
    attempt = channel.number_in(environment, channel.ATTEMPT, 0)
    store = Checkpoints(Path(folder), attempt=attempt, rank=rank, world=world) if folder else None
    channel_line = channel.Channel(line) if line else None
    run = made_kind(
        store,
        rank=rank,
        world=world,
        parts=Parts(parts, replicated, save, load, prove),
        leave=leave or leave_at_once,
        requests=Requests(environment.get(channel.SUSPEND) or os.devnull) if line else None,
        line=channel_line,
        turns=turns_of(channel_line, rank, world, move),
    )
    run.save_every = save_every
    run.is_whole = is_whole or run.is_whole
    run.made_with = dict(made_with or {})
    if line:
        run.surroundings = Surroundings(run.warn, environment)
        run.surroundings.begin()
    run.resume()
    atexit.register(run.exits)
    return run


class Run:
    """A run of one rank; made by `start`."""

    def __init__(
        self,
        checkpoints: Checkpoints | None,
        *,
        rank: int = 0,
        world: int = 1,
        parts: Parts | None = None,
        leave: Callable[[], NoReturn] = leave_at_once,
        requests: Requests | None = None,
        line: channel.Channel | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.steps_done = 0
        self.epoch = 0
        self.save_every = 0
        self.resumed_from: Path | None = None
        # Whether all of a mini-batch is in what is saved; gradients that wait for others are not.
        self.is_whole: Callable[[], bool] = lambda: True
        self.is_evaluation_due = False
        self.made_with: dict[str, str] = {}
        # What an adapter trains, by name, beside the parts; `shunter.train.check` compares it.
        self.observed: Callable[[], Mapping[str, object]] = dict
        self._checkpoints = checkpoints
        self._rank = rank
        self._world = self._saved_world = world
        self._parts = parts or Parts({})
        self._leave = leave
        self._requests = requests
        self._line = line
        self._turns = turns
        self._agreement: Agreement | None = None
        self._is_asked_always = False  # the others, whether they stop: a collective call
        self._agreed = 0
        self._tick = 0
        self._batches = AllBatches(self._parts.named.values(), self._passes_batch)
        self._evaluation_chance: state.State | None = None
        self._step_rate = StepRate()
        self._warned: set[str] = set()
        self._overdue, self._incomplete = Overdue(), Incomplete()
        self._sizes: list[int] = []
        self._resumed_at = 0
        self.surroundings: Surroundings | None = None  # until it has passed its first boundaries

    @property
    def device(self) -> str:
        """Where to train: "cpu", "cuda", or of a run that moves the GPU of its turn."""
        return device() if self._turns is None else self._turns.device

    def step(self) -> None:
        """Tell that a mini-batch is done; saves and exits if the run is to be suspended."""
        if self.boundary():
            self.suspend()
        elif self.is_saving_due():
            self.save()

    def boundary(self) -> bool:
        """Count a mini-batch and say whether to stop; for own ways of saving."""
        self.steps_done += 1
        if self._requests is None:
            return False
        if self.surroundings is not None:
            self._look_around(self.surroundings)
        if self._turns is not None and self._turns.was_interrupted():
            self._step_rate.skip()
        if self._step_rate.passes(time.monotonic()):
            self._tell("training")
        if self.is_whole():
            return self._is_stop()
        if self._incomplete.passes(self.steps_done):
            self._warn_if_asked(
                f"and `is_whole` was false after each of the last {self._incomplete.count} "
                "mini-batches, so that none of them is a boundary: let it be true where gradients "
                "are used up"
            )
        return False

    def is_saving_due(self) -> bool:
        """Say whether to save after this mini-batch, without leaving."""
        is_due = bool(self.save_every) and self.steps_done % self.save_every == 0
        return is_due and self.is_whole()

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the numbers of the epochs from the one the checkpoint was in."""
        while self.epoch < count:
            with self._batches.epoch():
                yield self.epoch
            self.epoch += 1
            self._batches.next_epoch()
        self.completed()

    def batches(self, source: Iterable[T], name: str = "") -> Batches[T]:
        """Return a loader whose position is saved; resumed, it goes on where it was.

        Of loaders without a name that come one after the other in an epoch, each has a place of
        its own. Outside `epochs` nobody could say which of them a resumed run is given.

        Raises:
            TypeError: it has begun already, as `enumerate(loader)` has, say.
            ValueError: another one without a name is in use, or was before outside `epochs`.
        """
        loaders.check_loader(source)
        check_workers(self.warn, source)
        name = name or self._batches.name_of(source)
        if name in self._batches.pending and self._saved_world != self._world:
            check_other_ranks(source, name, self._saved_world, self._world)
        return self._batches.of(source, name)

    def shards(self, size: int, batch_size: int, *, seed: int = 0, shuffle: bool = True) -> Shards:
        """Return this rank's part of batches that are the same over any ranks.

        Args:
            size: how many samples there are.
            batch_size: how many of them all ranks train with in a step, together.
            seed: with the epoch it decides the order.
            shuffle: else they come as they are numbered.
        """
        place = (self._rank, self._world)
        return Shards(size, batch_size, place, lambda: self.epoch, seed=seed, shuffle=shuffle)

    def evaluate(self, source: Iterable[T], *, alone: bool = False) -> Iterator[T]:
        """Yield the batches of an evaluation that may be interrupted and done again.

        Args:
            source: the loader.
            alone: this rank evaluates while the others wait; then it cannot be interrupted.
        """
        self.is_evaluation_due = False
        is_watched = self._requests is not None and not (alone and self._world > 1)
        if is_watched:
            self._evaluation_chance = state.chance()
            self._tell("evaluating")
        for batch in source:
            yield batch
            if is_watched and self.is_whole() and self._is_stop():
                self.suspend()
        self._evaluation_chance = None
        self._step_rate.rest(time.monotonic())

    def suspend(self) -> None:
        """Save, and leave if every rank could; else tell so and go on."""
        self._tell("saving")
        try:
            path, size = self._write()
        except serialization.ERRORS as error:
            self._not_saved(f"{type(error).__name__}: {error}")
        else:
            self.saved(path, size)

    def saved(self, path: Path, size: int) -> None:
        """Tell that this rank has saved, and leave once all have."""
        assert self._agreement is not None
        if self._agreement.all_saved(self._agreed, saved=True):
            self._answer("saved", checkpoint=str(path.absolute()), bytes=size)
            self._step_rate.is_over = True  # it leaves before its end
            self._leave()
        self._answer("failed", error="another rank did not save")
        if self._checkpoints is not None:
            self._checkpoints.give_up(path)
        self._go_on()

    def saved_by_script(self, path: Path, check: Whole | None = None) -> None:
        """As `saved`, for a folder that the script has written in its own way.

        Args:
            path: the folder.
            check: raises where it could not be read again.
        """
        try:
            wait_for_writers(path, None, alive(), may_be_empty=bool(self._rank))
            if check is not None:
                check(path)
        except serialization.ERRORS as error:
            self._not_saved(f"{type(error).__name__}: {error}")
        else:
            self.saved(path, tree_bytes(path))

    def save(self) -> None:
        """Save without leaving; a failure is told, the first one on the job, too."""
        if self._checkpoints is None:
            return
        try:
            path, size = self._write()
        except serialization.ERRORS as error:
            text = f"checkpoint failed: {type(error).__name__}: {error}"
            _complain(text)
            if _FAILED not in self._warned:
                self._warned.add(_FAILED)
                self._warn_on_job(text)
        else:
            if self._world == 1:  # of several ranks nobody knows here whether all have saved
                self._answer("saved", checkpoint=str(path.absolute()), bytes=size)
        self._step_rate.rest(time.monotonic())

    def shown(self) -> dict[str, object]:
        """Return what decides what comes next, by name, for a check to compare."""
        return {**self.observed(), **self._parts.captured(self._rank)}

    def resume(self) -> None:
        """Load the newest complete checkpoint, if there is one.

        Raises:
            ValueError: it is of other libraries, other ranks or other parts.
        """
        found = self._newest(self._checkpoints) if self._checkpoints is not None else None
        if self._checkpoints is None or found is None:
            return
        folder, first = found
        self.check_made_with(folder, first.get("made_with"))
        self._saved_world = first["world"]
        if first["world"] != self._world:
            self._check_world(folder, first["world"])
        is_new = self._rank >= first["world"]
        saved = self._checkpoints.read(folder) if self._rank and not is_new else first
        left_out = self._parts.left_out(saved["parts"])
        if left_out:
            self.warn(
                f"checkpoint {folder.name} has {', '.join(left_out)}, which this script does not "
                "give train.start: that is not restored"
            )
        try:
            self._parts.restore(self._rank, saved["parts"], first["parts"])
            if self._parts.load:
                self._parts.load(folder)
        except serialization.ERRORS as error:
            self.warn(
                f"checkpoint {folder} cannot be loaded ({type(error).__name__}: {error}): let the "
                "script be as it was, or remove that folder to go on from the one before"
            )
            raise
        self.steps_done, self.epoch = saved["step"], saved["epoch"]
        self._resumed_at = self.steps_done
        size = self._checkpoints.size(folder, is_all=self._parts.save is not None)
        self._sizes = [*saved.get("sizes", ()), size]
        self.is_evaluation_due = saved["evaluating"]
        self._batches.pending, self._batches.chance = saved["batches"], saved["chance"]
        self.resumed_from = folder
        state.set_chance(self._batches.chance)
        if is_new:  # else it would draw what the first rank draws
            state.seed(f"{self.steps_done}/{self._rank}")
            self._batches.chance = state.chance()

    def completed(self) -> None:
        """Tell that the training has come to its end; an evaluation may follow, say.

        `epochs` tells it after its last one. A job that ends with status 0 after that is finished,
        though it was asked to leave meanwhile, unless SIGTERM has ended it.
        """
        if self._requests is not None and not self._step_rate.is_over:
            self._tell("completed")

    def finish(self) -> None:
        """Tell, as the last line of a script, that all is done and no boundary comes.

        A job that ends with status 0 after that is finished, whatever has ended it.
        """
        if self._requests is not None and not self._step_rate.is_over:
            self._tell("done")
        self.exits()

    def exits(self) -> None:
        """Tell that no further boundary comes; done at the end of the process."""
        if self._requests is None or self._step_rate.is_over:
            return
        self._step_rate.is_over = True
        if self.steps_done == self._resumed_at:
            self._warn_if_asked("and ends without having come to a boundary")
        try:
            if self._agreement is not None:
                self._agreement.ends()
        except OSError:
            return  # the channel is gone, and with it whoever would have read this
        self._tell("finished")

    def warn(self, text: str) -> None:
        """Warn the owner, once, in the job's output and on the job, of what is not exact."""
        if text in self._warned:
            return
        self._warned.add(text)
        if not self._rank:
            _complain(f"warning: {text}")
        self._warn_on_job(text)

    def _warn_on_job(self, text: str) -> None:
        told = text[: channel.WARNING_CHARACTERS]
        # A line has a bound in bytes, and letters beyond ASCII take up to twelve of them.
        self._answer("warned", text=told if told.isascii() else told[: len(told) // 2])

    def _passes_batch(self) -> None:
        """Warn of a run that is asked to leave, while batches pass without a boundary."""
        if self._requests is not None and self._overdue.passes(self.steps_done):
            self._warn_if_asked(
                f"and {self._overdue.since} batches have passed since the last boundary: call "
                "run.step() after each mini-batch, and evaluate by run.evaluate"
            )

    def _warn_if_asked(self, text: str) -> None:
        """Warn once, if a request is open that nobody sees."""
        if self._requests is None or _ASKED in self._warned or not self._requests.open_number():
            return
        self._warned.add(_ASKED)
        self.warn(f"{_ASKED}, {text}; a run that does not leave is ended, and loses work")

    def _newest(self, store: Checkpoints) -> tuple[Path, Any] | None:
        """Return the newest checkpoint that can be read, and what its first rank saved.

        A rank alone goes on from the one before; of several each might take another one.
        """
        folders = store.complete()
        for folder, lack in store.lacking().items():
            goes_on = f"goes on from {folders[0].name}" if folders else "begins at its start"
            self.warn(f"checkpoint {folder} is not whole ({lack}): the run {goes_on}")
        for folder in folders:
            is_last = self._world > 1 or folder == folders[-1]
            first = self._read_or_warn(store, folder, is_needed=is_last)
            if first is not None:
                return folder, first
        return None

    def _read_or_warn(self, store: Checkpoints, folder: Path, *, is_needed: bool) -> Any:
        """Return what the first rank saved; None: it cannot be read, nor must it."""
        try:
            return store.read(folder, 0)
        except serialization.ERRORS as error:
            goes_on = "there is no other one" if is_needed else "the run goes on from another one"
            self.warn(
                f"checkpoint {folder} cannot be read ({type(error).__name__}: {error}): {goes_on}"
            )
            if is_needed:
                raise
            return None

    def _check_world(self, folder: Path, saved: int) -> None:
        """Refuse a checkpoint of other ranks where that cannot be right.

        Raises:
            ValueError: what each rank has of a part is its own.
        """
        self._parts.check_replicated(folder, saved, self._world)
        if self._parts.load is not None:
            self.warn(
                f"checkpoint {folder.name} is of {ranks(saved)}, and is resumed by "
                f"{ranks(self._world)}: what `save` has written has to fit `load` there"
            )

    def check_made_with(self, folder: Path, made_with: Mapping[str, str] | None) -> None:
        """Refuse a checkpoint of other libraries; those before this format do not say.

        Raises:
            ValueError: it is of other libraries.
        """
        if made_with is None or made_with == self.made_with:
            return
        if set(made_with) != set(self.made_with):
            raise ValueError(
                f"checkpoint {folder} was made with {_versions(made_with)}, this run is made with "
                f"{_versions(self.made_with)}: resume it as it was, or name another folder of "
                "checkpoints"
            )
        self.warn(
            f"checkpoint {folder.name} was made with {_versions(made_with)}, and is resumed with "
            f"{_versions(self.made_with)}: bits may differ"
        )

    def _look_around(self, surroundings: Surroundings) -> None:
        surroundings.boundary(takes_batches=self._batches.is_used)
        if surroundings.is_over:
            self.surroundings = None

    def _is_stop(self) -> bool:
        """Say whether every rank stops at this boundary."""
        assert self._requests is not None
        if self._agreement is None:
            self._agreement = agreement(self._meeting(), self._rank, self._world)
            self._is_asked_always = isinstance(self._agreement, TorchAgreement)
        self._tick += 1
        if self._turns is not None and self._turns.boundary(self._tick, self._agreement):
            self._step_rate.rest(time.monotonic())
        request = self._requests.open_number()
        if not request and not self._is_asked_always:
            return False
        self._acknowledge(request)
        try:
            self._agreed = self._agreement.stops(self._tick, request)
        except OSError:
            return False  # the channel is full or gone: the supervisor's deadline decides
        self._acknowledge(self._agreed)
        return bool(self._agreed)

    def _acknowledge(self, request: int) -> None:
        """Tell once that a request was seen, here or by another rank."""
        assert self._requests is not None
        if self._requests.is_new(request):
            self._agreed = request
            self._answer("acknowledged")

    def _meeting(self) -> Path:
        """Return where ranks vote by files; without it they never stop, nor half."""
        if self._checkpoints is None or self._world == 1:
            return Path(os.devnull)
        folder = votes_folder(self._checkpoints.folder, self._checkpoints.attempt)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return Path(os.devnull)
        return folder

    def _write(self) -> tuple[Path, int]:
        if self._checkpoints is None:
            raise ValueError(f"no folder of checkpoints: {channel.CHECKPOINTS} is not set")
        is_evaluating = self._evaluation_chance is not None
        written = self._checkpoints.write(
            self.steps_done,
            {
                "step": self.steps_done,
                "epoch": self.epoch,
                "rank": self._rank,
                "world": self._world,
                "made_with": self.made_with,
                "parts": self._parts.captured(self._rank),
                "batches": self._batches.state_dict(),
                "chance": self._evaluation_chance if is_evaluating else state.chance(),
                "evaluating": is_evaluating,
                "sizes": self._sizes,
            },
            self._parts.save,
            self._parts.prove,
        )
        self._sizes = [*self._sizes, written[1]][-SIZES:]
        if is_growing(self._sizes):
            self._warn_of_growth()
        if not self._rank:
            self._checkpoints.prune()
        return written

    def _warn_of_growth(self) -> None:
        if _GROWS in self._warned:
            return
        self._warned.add(_GROWS)
        sizes = ", ".join(in_words(size) for size in self._sizes)
        captured = self._parts.captured(self._rank)
        parts = {name: serialization.size_of(captured[name]) for name in captured}
        largest = max(parts, key=lambda name: parts[name], default=None)
        most = "" if largest is None else f"; the part {largest!r} has {in_words(parts[largest])}"
        self.warn(
            f"{_GROWS}: the last have {sizes}{most}: keep in them what does not grow with the run"
        )

    def _not_saved(self, error: str) -> None:
        _complain(f"checkpoint failed: {error}")
        assert self._agreement is not None
        self._agreement.all_saved(self._agreed, saved=False)
        if self._checkpoints is not None:
            self._checkpoints.give_up()
        self._answer("failed", error=error)
        self._go_on()

    def _go_on(self) -> None:
        assert self._requests is not None
        self._requests.close(self._agreed)
        self._tell("training")
        self._step_rate.rest(time.monotonic())

    def _answer(self, what: str, **said: object) -> None:
        """Tell the supervisor something for all ranks."""
        if self._line is not None and not self._rank:
            self._line.tell(what, step=self.steps_done, **said)

    def _tell(self, activity: str) -> None:
        """Tell the supervisor how far this rank is."""
        if self._line is not None:
            said = {"rank": self._rank, "step": self.steps_done, "state": activity}
            self._line.tell("progress", **said, **self._step_rate.taken())


_ASKED = "the run is asked to leave"
_FAILED = "checkpoint failed"
_GROWS = "each checkpoint is far larger than the one before"


def _versions(made_with: Mapping[str, str]) -> str:
    named = [f"{name} {version}" for name, version in sorted(made_with.items())]
    return ", ".join(named) or "no library of its own"


def _complain(text: str) -> None:
    """Say something in the job's own output; on a full disk nothing is said.

    It passes by `sys.stderr`, which would keep what it cannot write, and fail with it at the end.
    """
    line = f"shunter: {text}\n".encode("utf-8", "backslashreplace")
    with suppress(OSError):
        os.write(2, line)


class StepRate:
    """How long mini-batches take: their mean since it was last told."""

    def __init__(self) -> None:
        self.is_over = False
        self._last: float | None = None
        self._spent_s = 0.0
        self._count = 0
        self._due = 0.0

    def passes(self, now: float) -> bool:
        """Count a mini-batch, and say whether it is time to tell."""
        if self._last is not None:
            self._spent_s += now - self._last
            self._count += 1
        self._last = now
        return now >= self._due

    def rest(self, now: float) -> None:
        """Leave out what was no mini-batch: an evaluation, a checkpoint."""
        self._last = now

    def skip(self) -> None:
        """Leave out the mini-batch that has just ended: others had their turns meanwhile."""
        self._last = None

    def taken(self) -> dict[str, float | None]:
        """Return the mean and the number of batches since the last time."""
        mean = round(self._spent_s / self._count, 9) if self._count else None
        said: dict[str, float | None] = {"batch_s": mean, "batches": self._count}
        self._spent_s, self._count = 0.0, 0
        self._due = time.monotonic() + channel.PROGRESS_EVERY_S
        return said


made_kind: type[Run] = Run
"""What `start` makes; `shunter.train.check` puts a kind there that tells it what passes."""
