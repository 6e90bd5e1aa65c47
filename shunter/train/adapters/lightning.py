"""Lightning: `callback = suspension()`, `Trainer(callbacks=[callback])`, and `.resume_path`.

    trainer.fit(model, data, ckpt_path=callback.resume_path)

Lightning writes its own file (model, optimizers, loops) into our checkpoint folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shunter.train.run import start

if TYPE_CHECKING:
    from pathlib import Path

FILE = "lightning.ckpt"


def suspension() -> Any:
    """Return a callback that saves with Lightning and leaves when Shunter asks."""
    try:
        from lightning.pytorch import (  # type: ignore[import-not-found, unused-ignore]  # with it
            Callback,
        )
    except ImportError:
        from pytorch_lightning import (  # type: ignore[import-not-found, unused-ignore]  # older
            Callback,
        )

    class Suspension(Callback):  # type: ignore[misc, unused-ignore]  # its type is Any here
        """Counts training batches; saves at the end of one."""

        def __init__(self) -> None:
            self.trainer: Any = None
            self.run = start(save=self._save)
            folder = self.run.resumed_from
            self.resume_path = str(folder / FILE) if folder else None

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            """Tell the mini-batch; save and leave if asked."""
            self.trainer = trainer
            self.run.step()

        def _save(self, folder: Path) -> None:
            # Lightning gathers the state on every rank and lets rank 0 write.
            self.trainer.save_checkpoint(str(folder / FILE))

    return Suspension()
