"""pytorch-ignite: `suspension(trainer, model=model, optimizer=optimizer)` before `trainer.run`.

    trainer = create_supervised_trainer(model, optimizer, loss)
    suspension(trainer, model=model, optimizer=optimizer, scheduler=scheduler)
    trainer.run(loader, max_epochs=3)

The engine's own state has its iteration and its epoch, but neither order nor chance, so what it
trains from is wrapped. A run leaves where the next batch is asked for: all handlers of the last
one and an evaluation that was due are done then. Resumed within an epoch, the engine fires
EPOCH_STARTED again, which has metrics that are attached to the trainer begin anew: those that are
parts are put back after it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

from shunter.train import state
from shunter.train.adapters.between_batches import Boundary, WatchedLoader
from shunter.train.run import start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.train.run import Run

    class EngineState(Protocol):
        """What of an engine's state is read here."""

        iteration: int
        epoch: int
        dataloader: Any

    class Engine(Protocol):
        """What of ignite's Engine is used here."""

        state: EngineState

        def add_event_handler(self, event: Any, handler: Any) -> object: ...


def suspension(trainer: Engine, *, gradient_accumulation_steps: int = 1, **options: Any) -> Run:
    """Begin or resume what an engine trains, and attach what leaves.

    Args:
        trainer: the engine that trains; its own state is saved as part `trainer`.
        gradient_accumulation_steps: as `create_supervised_trainer` has got it.
        options: as of `shunter.train.start`: the parts (model, optimizer, schedulers, metrics and
            handlers with a state) by name.

    Raises:
        TypeError: a DeterministicEngine, which puts its own order back.
    """
    import ignite
    from ignite.engine import DeterministicEngine, Events
    from ignite.metrics import Metric

    if isinstance(trainer, DeterministicEngine):
        raise TypeError(
            "a DeterministicEngine seeds each epoch anew and fetches by itself what a resumed run "
            "begins with: take an Engine (`deterministic=False`), whose order and chance are saved"
        )
    options.setdefault("is_whole", lambda: _is_used_up(trainer, gradient_accumulation_steps))
    made_with = {"pytorch-ignite": ignite.__version__}
    run = start(trainer=trainer, made_with=made_with, **options)
    metrics = {name: part for name, part in options.items() if isinstance(part, Metric)}
    watched = _Watched(trainer, run, metrics)
    trainer.add_event_handler(Events.STARTED, watched.begin)
    trainer.add_event_handler(Events.EPOCH_STARTED, watched.begin_epoch)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, watched.pass_batch)
    trainer.add_event_handler(Events.COMPLETED, run.completed)
    return run


def _is_used_up(trainer: Engine, steps: int) -> bool:
    """Say whether no gradients wait for others."""
    return trainer.state.iteration % steps == 0


class _Watched:
    """An engine whose loader is wrapped."""

    def __init__(self, trainer: Engine, run: Run, metrics: Mapping[str, object]) -> None:
        self._trainer = trainer
        self._run = run
        self._boundary = Boundary(run)
        self._loader: WatchedLoader | None = None
        self._metrics = metrics
        self._resumed: dict[str, object] = {}
        if run.resumed_from is not None:
            saved = {name: state.captured(part) for name, part in metrics.items()}
            self._resumed = copy.deepcopy(saved)

    def begin(self) -> None:
        """Wrap the loader that `trainer.run` was given.

        Raises:
            TypeError: it was given none.
        """
        data = self._trainer.state.dataloader
        if data is None:
            raise TypeError(
                "trainer.run was given no data: a run is suspended where the engine asks for its "
                "next batch, so give it the loader"
            )
        if not isinstance(data, WatchedLoader):
            data = WatchedLoader(data, self._run.batches(data, "ignite"), self._before_batch)
            self._trainer.state.dataloader = data
        self._loader = data

    def begin_epoch(self) -> None:
        self._run.epoch = self._trainer.state.epoch - 1

    def pass_batch(self) -> None:
        self._boundary.passed()
        if self._trainer.state.dataloader is not self._loader:
            self._run.warn(
                "trainer.set_data has put another loader in place of that of trainer.run: from "
                "here on the run cannot be suspended; give trainer.run one loader that yields both"
            )

    def _before_batch(self) -> None:
        for name, saved in self._resumed.items():
            state.restore(self._metrics[name], saved)
        self._resumed = {}
        self._boundary.act()
