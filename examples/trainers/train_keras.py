"""Keras on torch or JAX, by `fit`: suspended at any step, resumed exactly.

KERAS_BACKEND=jax python train_keras.py [dataset | arrays]
"""

import math
import sys

import keras
import numpy as np

from shunter.train import check
from shunter.train.adapters.keras import suspension

EPOCHS, BATCH = 4, 8


class Noisy(keras.utils.PyDataset):
    """Batches in an order that is drawn for each epoch, with noise that each draws."""

    def __init__(self, x, y, **options):
        super().__init__(**options)
        self.x, self.y = x, y
        self.order = np.arange(len(x))
        self.epoch = 0

    def __len__(self):
        return math.ceil(len(self.x) / BATCH)

    def __getitem__(self, index):
        chosen = self.order[index * BATCH : (index + 1) * BATCH]
        noise = np.random.default_rng([self.epoch, index]).normal(size=self.x[chosen].shape)
        return self.x[chosen] + 0.1 * noise.astype("float32"), self.y[chosen]

    def on_epoch_end(self):
        self.epoch += 1
        np.random.shuffle(self.order)


class Seen(keras.callbacks.Callback):
    """Shows a check what each step has come to."""

    def on_train_batch_end(self, batch, logs=None):
        check.saw(step=batch, logs=logs)

    def on_test_batch_end(self, batch, logs=None):
        check.evaluating()


keras.utils.set_random_seed(1)
draws = np.random.RandomState(0)
x = draws.rand(76, 6).astype("float32")
y = x.sum(1, keepdims=True) + 0.1 * draws.rand(76, 1).astype("float32")

model = keras.Sequential(
    [
        keras.layers.GaussianNoise(0.1),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.3, seed=7),
        keras.layers.Dense(1),
    ]
)
rate = keras.optimizers.schedules.CosineDecay(0.02, 30)
optimizer = keras.optimizers.Adam(rate, gradient_accumulation_steps=2, use_ema=True)
model.compile(optimizer=optimizer, loss="mse", metrics=["mae"])

callbacks = [
    keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
    suspension(),
    Seen(),
]
train, held_out = (x[:60], y[:60]), (x[60:], y[60:])
rest = {"epochs": EPOCHS, "validation_data": held_out, "callbacks": callbacks, "verbose": 0}
if "arrays" in sys.argv:
    history = model.fit(*train, batch_size=BATCH, **rest)
else:
    history = model.fit(Noisy(*train, workers=check.workers(0)), **rest)
print(history.history["val_loss"])
