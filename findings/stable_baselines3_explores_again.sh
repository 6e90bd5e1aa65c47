#!/bin/sh
# A seeded model of Stable-Baselines3 that was saved and loaded explores with the same actions again.
#
# Believed: `model.save` and `load`, with the replay buffer saved as well, are how training is continued, as its guide says.
#   `load` leaves the chance of the process as it is, or goes on with that of the saved model: the actions that are drawn
#   at random after it are others than those before.
# Seen: `load` sets the model up anew, which seeds all global chance (Python, numpy, torch) and that of the action space with
#   the model's seed, whatever the script has set before. So every time a job is restarted from its checkpoint it explores with
#   the random actions of its first steps: in four stretches with a restart after each, all drew one and the same actions, with
#   nothing logged. Restoring the global chance alone is not enough, since the action space has its own.
# Not found in its documentation, which says of `seed` that it is for generators, and of `load` nothing of chance. Users reported
#   that chance begins again after it (stable-baselines3 issues 1643, 2023, closed, and 1526, open).
# Remedy: keep `model.action_space` and the global states of chance yourself, and put them back after `load`; or load and
#   call `set_random_seed` with another number each time.
# Versions: stable-baselines3 2.9.2, gymnasium 1.4.0, torch 2.13.0, numpy 2.4.6, Python 3.11. Date: 2026-11-28.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check \
    stable-baselines3==2.9.2 gymnasium==1.4.0 torch==2.13.0 numpy==2.4.6
cat > "$folder/try.py" <<'PYTHON'
import importlib.metadata
import pathlib
import sys

import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

folder = pathlib.Path(sys.argv[1])
STEPS = 12


class Actions(BaseCallback):
    def __init__(self):
        super().__init__()
        self.taken = ""

    def _on_step(self):
        self.taken += str(int(self.locals["actions"][0]))
        return True


def made(seed):
    return DQN("MlpPolicy", "CartPole-v1", seed=seed, learning_starts=10_000, buffer_size=1000, device="cpu")


def actions(model):
    """Train on for some steps, all of which explore at random; return the actions."""
    callback = Actions()
    model.learn(STEPS, callback=callback, reset_num_timesteps=False)
    return callback.taken


def stretches(seed, restarts):
    model, found = made(seed), []
    for _ in range(4):
        found.append(actions(model))
        if restarts:
            env = model.get_env()
            model.save(folder / "model.zip")
            model.save_replay_buffer(folder / "replay.pkl")
            np.random.seed(None)  # what a script sets before `load` does not last
            model = DQN.load(folder / "model.zip", env=env, force_reset=False, device="cpu")
            model.load_replay_buffer(folder / "replay.pkl")
    return found


print("python", sys.version.split()[0])
for package in ("stable-baselines3", "gymnasium", "torch", "numpy"):
    print(package, importlib.metadata.version(package))
whole, cut = stretches(7, restarts=False), stretches(7, restarts=True)
unseeded = stretches(None, restarts=True)
print("one process, seed 7:                ", whole)
print("saved and loaded after each, seed 7:", cut)
print("saved and loaded after each, no seed", unseeded)
seen = len(set(whole)) == 4 and set(cut) == {whole[0]} and len(set(unseeded)) > 1
print("as the head of this script states" if seen else "CHANGED: not what the head of this script states")
sys.exit(not seen)
PYTHON
CUDA_VISIBLE_DEVICES="" "$folder/venv/bin/python" -W ignore "$folder/try.py" "$folder"
