"""JAX with Optax, Grain and Orbax, by a loop of its own: suspended at any step, resumed exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint
from grain import python as grain

from shunter import train
from shunter.train import check

EPOCHS, BATCH, RECORDS = 4, 8, 56
PER_EPOCH = RECORDS // BATCH


class Records:
    """Samples by their number."""

    def __init__(self, seed, count):
        self.x = np.random.default_rng(seed).random((count, 6), dtype="float32")

    def __repr__(self):
        return f"Records({len(self.x)})"  # Grain keeps it, and refuses the state of another source

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "y": self.x[index].sum(keepdims=True)}


class Noise(grain.RandomMapTransform):
    """Noise that each sample draws from the generator that Grain gives it."""

    def random_map(self, record, rng):
        noise = rng.normal(size=record["x"].shape).astype("float32")
        return {**record, "x": record["x"] + 0.1 * noise}


def predicted(params, x, key):
    """Return what two layers say, with dropout where there is a key."""
    hidden = jax.nn.relu(x @ params["first"] + params["bias"])
    if key is not None:
        hidden = jnp.where(jax.random.bernoulli(key, 0.7, hidden.shape), hidden / 0.7, 0.0)
    return hidden @ params["second"]


def loss_of(params, batch, key):
    """Return the mean squared error."""
    return jnp.mean((predicted(params, batch["x"], key) - batch["y"]) ** 2)


@jax.jit
def trained(state, batch):
    """Return the state after a mini-batch, and its loss."""
    key, following = jax.random.split(state["key"])
    loss, gradients = jax.value_and_grad(loss_of)(state["params"], batch, key)
    updates, moments = optimizer.update(gradients, state["moments"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "moments": moments, "key": following}, loss


def save(folder):
    """Begin to write the state: Orbax goes on in threads, which are waited for."""
    checkpointer.save(folder.absolute() / "orbax", state)


def load(folder):
    """Read the state again."""
    state.update(checkpointer.restore(folder.absolute() / "orbax", state))


optimizer = optax.MultiSteps(optax.adamw(optax.cosine_decay_schedule(0.02, 14)), 2)
first, second, key = jax.random.split(jax.random.PRNGKey(1), 3)
params = {
    "first": 0.3 * jax.random.normal(first, (6, 16)),
    "bias": jnp.zeros(16),
    "second": 0.3 * jax.random.normal(second, (16, 1)),
}
state = {"params": params, "moments": optimizer.init(params), "key": key}
checkpointer = orbax.checkpoint.StandardCheckpointer()

sampler = grain.IndexSampler(RECORDS, num_epochs=EPOCHS, shuffle=True, seed=1)
operations = [Noise(), grain.Batch(BATCH, drop_remainder=True)]
batches = iter(
    grain.DataLoader(data_source=Records(0, RECORDS), sampler=sampler, operations=operations)
)
held_out = Records(1, 16)[np.arange(16)]["x"].reshape(4, 4, 6)

run = train.start(save=save, load=load, batches=batches)  # it has get_state and set_state
run.observed = lambda: dict(enumerate(jax.tree.leaves(state)))
for epoch in run.epochs(EPOCHS):
    while run.steps_done < PER_EPOCH * (epoch + 1):
        batch = next(batches)
        following, loss = trained(state, batch)
        state.update(following)
        check.saw(batch=batch, loss=loss)
        run.step()
    total = 0.0
    for x in run.evaluate(held_out):
        total += float(loss_of(state["params"], {"x": x, "y": x.sum(1, keepdims=True)}, None))
    print(f"epoch {epoch}: {total:.6f}")
