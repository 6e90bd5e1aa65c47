"""NumPy alone: a network of two layers, suspended after any mini-batch, resumed exactly."""

import numpy as np

from shunter import train
from shunter.train import check

EPOCHS, BATCH, KEPT, ACCUMULATED = 4, 8, 0.7, 2


class Network:
    """Two layers with momentum, and gradients that several mini-batches add up to."""

    def __init__(self, rng):
        self.weights = [0.4 * rng.normal(size=(6, 16)), 0.4 * rng.normal(size=(16, 1))]
        self.momenta = [np.zeros_like(each) for each in self.weights]
        self.gradients = [np.zeros_like(each) for each in self.weights]

    def state_dict(self):
        return {"weights": self.weights, "momenta": self.momenta}

    def load_state_dict(self, state):
        self.weights, self.momenta = state["weights"], state["momenta"]

    def learns(self, x, y, mask):
        hidden = np.maximum(x @ self.weights[0], 0) * mask
        error = hidden @ self.weights[1] - y
        back = (error @ self.weights[1].T) * mask * (hidden > 0)
        self.gradients[0] += x.T @ back / len(x)
        self.gradients[1] += hidden.T @ error / len(x)
        return float((error**2).mean())

    def steps(self, rate):
        for number, gradient in enumerate(self.gradients):
            self.momenta[number] = 0.9 * self.momenta[number] - rate * gradient
            self.weights[number] = self.weights[number] + self.momenta[number]
            self.gradients[number] = np.zeros_like(gradient)

    def misses(self, x, y):
        return float(((np.maximum(x @ self.weights[0], 0) @ self.weights[1] - y) ** 2).mean())


data = np.random.default_rng(0).normal(size=(80, 6))
train_x, held_out = data[:64], data[64:].reshape(4, 4, 6)
rng = np.random.default_rng(1)
network = Network(rng)

run = train.start(network=network, rng=rng)
run.is_whole = lambda: run.steps_done % ACCUMULATED == 0


def batches():
    """Yield rows in an order that is drawn where a resumed run draws it again: within."""
    yield from rng.permutation(len(train_x)).reshape(-1, BATCH)


for epoch in run.epochs(EPOCHS):
    for rows in run.batches(batches()):
        x = train_x[rows] + 0.1 * rng.normal(size=(BATCH, 6))
        mask = (rng.random((BATCH, 16)) < KEPT) / KEPT
        loss = network.learns(x, x.sum(1, keepdims=True), mask)
        if (run.steps_done + 1) % ACCUMULATED == 0:
            network.steps(0.02 * 0.95 ** (run.steps_done // ACCUMULATED))
        check.saw(batch=x, loss=loss, network=network)
        run.step()
    missed = sum(network.misses(x, x.sum(1, keepdims=True)) for x in run.evaluate(held_out))
    print(f"epoch {epoch}: {missed:.6f}")
