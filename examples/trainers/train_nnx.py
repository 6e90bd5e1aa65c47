"""Flax's NNX with Optax and Orbax, by a loop of its own: suspended at any step, resumed exactly."""

import jax
import numpy as np
import optax
import orbax.checkpoint
from flax import nnx

from shunter import train
from shunter.train import check

EPOCHS, BATCH = 4, 8


class Network(nnx.Module):
    """Two layers, with what draws (dropout) and what counts (batch statistics)."""

    def __init__(self, rngs):
        self.first = nnx.Linear(6, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.second = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.second(self.dropout(nnx.relu(self.norm(self.first(x)))))


@nnx.jit
def trained(network, optimizer, x, y):
    """Train with a mini-batch, and return its loss."""

    def loss_of(network):
        return ((network(x) - y) ** 2).mean()

    loss, gradients = nnx.value_and_grad(loss_of)(network)
    optimizer.update(network, gradients)
    return loss


def held():
    """Return all that the network and the optimizer hold; of random keys, their numbers."""
    return [
        jax.random.key_data(each) if is_key(each) else each
        for each in jax.tree.leaves(nnx.state((network, optimizer)))
    ]


def is_key(array):
    """Say whether an array holds random keys, which Orbax writes as numbers."""
    return jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)


def save(folder):
    """Begin to write it: Orbax goes on in threads, which are waited for."""
    checkpointer.save(folder.absolute() / "orbax", held())


def load(folder):
    """Put it back into the network and the optimizer."""
    kept = iter(checkpointer.restore(folder.absolute() / "orbax", held()))
    state = nnx.state((network, optimizer))

    def restored(each):
        return jax.random.wrap_key_data(next(kept)) if is_key(each) else next(kept)

    nnx.update((network, optimizer), jax.tree.map(restored, state))


network = Network(nnx.Rngs(1))
optimizer = nnx.Optimizer(network, optax.adam(optax.cosine_decay_schedule(0.02, 28)), wrt=nnx.Param)
checkpointer = orbax.checkpoint.StandardCheckpointer()
data = np.random.default_rng(0).random((72, 6), dtype="float32")
held_out = data[56:].reshape(4, 4, 6)
rng = np.random.default_rng(1)


def batches():
    """Yield rows in an order that is drawn where a resumed run draws it again: within."""
    yield from rng.permutation(56).reshape(-1, BATCH)


run = train.start(save=save, load=load, rng=rng)
run.observed = lambda: {"held": held()}
for epoch in run.epochs(EPOCHS):
    network.train()
    for rows in run.batches(batches()):
        x = data[rows] + 0.1 * rng.random((BATCH, 6), dtype="float32")
        loss = trained(network, optimizer, x, x.sum(1, keepdims=True))
        check.saw(batch=x, loss=loss)
        run.step()
    network.eval()
    misses = [((network(x) - x.sum(1, keepdims=True)) ** 2).mean() for x in run.evaluate(held_out)]
    print(f"epoch {epoch}: {sum(misses):.6f}")
