"""scikit-learn by `partial_fit`: suspended after any mini-batch, resumed exactly.

python train_sklearn.py [sgd | kmeans | mlp]
"""

import pickle
import sys

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPClassifier

from shunter import train
from shunter.train import check

EPOCHS, BATCH = 4, 16
KIND = sys.argv[1] if len(sys.argv) > 1 else "sgd"

data = np.random.default_rng(0)
x = data.normal(size=(128, 8))
y = (x.sum(1) > 0).astype(int)
rng = np.random.default_rng(1)
# A number would seed each call of partial_fit of SGDClassifier alike; this one goes on.
random_state = np.random.RandomState(1)
if KIND == "kmeans":
    model = MiniBatchKMeans(4, batch_size=BATCH, random_state=random_state, reassignment_ratio=0.2)
elif KIND == "mlp":
    model = MLPClassifier((8,), batch_size=4, random_state=random_state)
else:
    model = SGDClassifier(learning_rate="adaptive", eta0=0.1, average=20, random_state=random_state)


def save(folder):
    """Write the model, with the state of what it draws from."""
    (folder / "model.pickle").write_bytes(pickle.dumps(model))


def load(folder):
    """Read the model again: pickle runs what a file says, so the folder has to be yours alone."""
    kept = pickle.loads((folder / "model.pickle").read_bytes())  # noqa: S301  see above
    vars(model).update(vars(kept))


def batches():
    """Yield rows in an order that is drawn where a resumed run draws it again: within."""
    yield from rng.permutation(len(x)).reshape(-1, BATCH)


def held(of):
    """Return the numbers and arrays that an object holds: bytes of pickle differ with its memo."""
    found = {}
    for name, value in vars(of).items():
        if isinstance(value, np.random.RandomState):
            found[name] = value.get_state()
        elif name == "_optimizer":  # of a neural network
            found[name] = held(value)
        elif isinstance(value, (int, float, np.ndarray, list)):
            found[name] = value
    return found


run = train.start(save=save, load=load, rng=rng)
run.observed = lambda: {"model": held(model)}
for epoch in run.epochs(EPOCHS):
    for rows in run.batches(batches()):
        noisy = x[rows] + 0.1 * rng.normal(size=(BATCH, 8))
        if KIND == "kmeans":
            model.partial_fit(noisy)
        else:
            model.partial_fit(noisy, y[rows], classes=[0, 1])
        check.saw(batch=noisy)
        run.step()
    scores = [model.score(x[part], y[part]) for part in run.evaluate(np.arange(128).reshape(4, -1))]
    print(f"epoch {epoch}: {sum(scores):.6f}")
