#!/bin/sh
# A Keras model that was saved and loaded draws its first dropout masks again.
#
# Believed: `model.save` and `load_model`, and the callback BackupAndRestore, which is offered for fault tolerance, restore
#   all that training changes. The state of a Dropout layer's generator is a variable of the layer, so it is saved as well:
#   training that was interrupted goes on as if it had not been.
# Seen: neither keeps the generator's state. Weights and optimizer are restored exactly (the same model at dropout rate 0
#   goes on bit for bit), but the generator is made again from its seed, with nothing logged. So a job with seeded dropout
#   that is restarted after every step trains with one and the same mask, step for step.
# Not found in its documentation: the page of BackupAndRestore says that "the training state" is restored. A user reported
#   that the variable is lost (keras issue 19796, 2024, closed as stale); that BackupAndRestore loses it too is not said.
# Remedy: keep the `state` of each layer's `seed_generator` yourself and `assign` it after loading.
# Versions: keras 3.15.1, jax and jaxlib 0.10.2, h5py 3.16.0, Python 3.11. Date: 2026-11-28.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 h5py==3.16.0
cat > "$folder/try.py" <<'PYTHON'
import pathlib
import sys

import h5py
import jax
import keras
import numpy as np

folder = pathlib.Path(sys.argv[1])
x = np.random.RandomState(0).rand(8, 4).astype("float32")
y = x.sum(1, keepdims=True)


def built(rate):
    keras.utils.set_random_seed(1)
    dropout = keras.layers.Dropout(rate, seed=7)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), dropout, keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    return model


class Interruption(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 3:
            raise KeyboardInterrupt


def losses(model, callbacks=()):
    history = model.fit(x, y, epochs=6, batch_size=8, shuffle=False, verbose=0, callbacks=list(callbacks))
    return history.history["loss"]


def interrupted(rate):
    def backup():
        return keras.callbacks.BackupAndRestore(str(folder / f"backup-{rate}"))

    try:
        losses(built(rate), [backup(), Interruption()])
    except KeyboardInterrupt:
        pass
    return losses(built(rate), [backup()])


def mask(model):
    zeros = np.asarray(model(np.ones((1, 8), "float32"), training=True))[0] == 0
    return "".join("x" if zero else "." for zero in zeros)


def dropping():
    return keras.Sequential([keras.Input((8,)), keras.layers.Dropout(0.5, seed=7)])


print("python", sys.version.split()[0], "keras", keras.__version__, "jax", jax.__version__, "h5py", h5py.__version__)
print("numpy", np.__version__, "backend", keras.backend.backend())
exact = {}
for rate in (0.0, 0.5):
    whole, rest = losses(built(rate))[3:], interrupted(rate)
    exact[rate] = whole == rest
    print(f"BackupAndRestore, dropout {rate}: undisturbed {whole}")
    print(f"BackupAndRestore, dropout {rate}: interrupted {rest}")

model = dropping()
together = [mask(model) for _ in range(4)]
model, apart = dropping(), []
for _ in range(4):
    apart.append(mask(model))
    model.save(folder / "model.keras")
    model = keras.models.load_model(folder / "model.keras")
print("masks of one process     ", together)
print("masks, saved after each  ", apart)

seen = exact == {0.0: True, 0.5: False} and len(set(together)) == 4 and set(apart) == {together[0]}
print("as the head of this script states" if seen else "CHANGED: not what the head of this script states")
sys.exit(not seen)
PYTHON
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/try.py" "$folder"
