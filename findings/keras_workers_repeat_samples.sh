#!/bin/sh
# An epoch of Keras over a PyDataset with two workers trains with some samples twice and leaves others out.
#
# Believed: `workers=2` makes the same batches faster. The docstring of PyDataset says that its structure guarantees that the
#   model trains once on each sample per epoch.
# Seen: `fit` takes a batch to build the model and its loss, before the first epoch. Batches that the workers had prepared by
#   then are kept, and come first in the first epoch, which ends after its number of steps: as many batches of its own are
#   missing, move on to the next epoch, and so on until the end. With shuffling they are of another order, so that samples
#   come twice and others not at all; how many depends on how far the workers were, so that no two runs need be equal. What
#   on_epoch_end changes (an augmentation's epoch, an order) comes late by as much. With workers=1 each sample comes once.
# Not found in its documentation. Nothing is logged.
# Remedy: build the model and its loss before, by a call of `model.evaluate` on a batch of arrays; or workers=1.
# Versions: keras 3.15.1, jax and jaxlib 0.10.2, Python 3.11. Date: 2026-11-29.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check keras==3.15.1 jax==0.10.2 jaxlib==0.10.2
cat > "$folder/try.py" <<'PYTHON'
import sys

import jax
import keras
import numpy as np

BATCHES, EPOCHS = 8, 3


class Numbered(keras.utils.PyDataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        return np.full((1, 1), index, "float32"), np.zeros((1, 1), "float32")


class Recording(keras.Model):
    """Its loss is the number of the batch."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones", trainable=False)
        self.unused = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x) + 0.0 * self.unused(x)


def trained(workers, is_built):
    keras.utils.set_random_seed(1)
    model = Recording()
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss="mae")
    if is_built:
        model.evaluate(np.zeros((1, 1)), np.zeros((1, 1)), verbose=0)
    sums = []

    class Losses(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            sums.append([0.0])

        def on_train_batch_end(self, batch, logs=None):
            sums[-1].append(logs["loss"] * (batch + 1))  # a mean over the epoch so far

    model.fit(Numbered(workers=workers), epochs=EPOCHS, verbose=0, callbacks=[Losses()])
    return [[round(after - before) for before, after in zip(each, each[1:])] for each in sums]


print("python", sys.version.split()[0], "keras", keras.__version__, "jax", jax.__version__, "numpy", np.__version__)
every = list(range(BATCHES))
found = {}
for workers, is_built in ((1, False), (2, False), (2, True)):
    epochs = trained(workers, is_built)
    found[workers, is_built] = [sorted(each) == every for each in epochs]
    print(f"workers={workers}, {'built before' if is_built else 'not built before'}: batches of each epoch {epochs}")
seen = all(found[1, False]) and not found[2, False][0] and all(found[2, True])
print("as the head of this script states" if seen else "CHANGED: not what the head of this script states")
sys.exit(not seen)
PYTHON
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/try.py"
