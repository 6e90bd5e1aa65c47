#!/bin/sh
# With XGBoost's seed_per_iteration, training that goes on from a model still draws other samples.
#
# Believed: `seed_per_iteration`, which is described as seeding the generator deterministically by the number of the round, is
#   what makes sampled boosting independent of where training began: a round draws the same rows and columns whether the rounds
#   before it were trained in this process or loaded by `xgb_model`.
# Seen: no tree after the stop is that of an undisturbed run, neither with the number of rounds as xgboost.train gives it (0
#   again), nor where `Booster.update` is given the right number. What samples columns is made once, in the first round of a
#   process, draws its seed from the same generator then (so the rows of that round differ too), and keeps a state of its own.
# Not found in its documentation.
# Remedy: `update` with the right number, and `load_config(save_config())` before each round of all runs, which makes it again.
# Versions: xgboost 3.2.0, numpy 2.4.6, scipy 1.17.1, Python 3.11. Date: 2026-11-29.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check xgboost==3.2.0 numpy==2.4.6 scipy==1.17.1
cat > "$folder/try.py" <<'PYTHON'
import pathlib
import sys

import numpy as np
import xgboost

folder = pathlib.Path(sys.argv[1])
draws = np.random.default_rng(0)
x = draws.normal(size=(500, 6))
y = x[:, 0] * x[:, 1] + x[:, 2]


def trained(first, rounds, model, is_numbered, is_made_again):
    parameters = {
        "max_depth": 3, "nthread": 1, "seed": 3, "subsample": 0.7, "colsample_bytree": 0.6, "seed_per_iteration": True,
    }
    data = xgboost.DMatrix(x, y)
    booster = xgboost.Booster(parameters, [data], model_file=model)
    for number in range(rounds):
        if is_made_again:
            booster.load_config(booster.save_config())
        booster.update(data, number + first if is_numbered else number)
    booster.save_model(folder / "model.ubj")
    return booster.get_dump(with_stats=True)


print("python", sys.version.split()[0], "xgboost", xgboost.__version__, "numpy", np.__version__)
equal = {}
for ways in ((False, False), (True, False), (True, True)):
    whole = trained(0, 20, None, *ways)
    trained(0, 10, None, *ways)
    rest = trained(10, 10, folder / "model.ubj", *ways)
    equal[ways] = sum(one == other for one, other in zip(whole[10:], rest[10:]))
    print(f"rounds numbered on: {ways[0]}, made again: {ways[1]}: {equal[ways]} of 10 trees after the stop are equal")
seen = equal[False, False] < 5 and equal[True, False] < 5 and equal[True, True] == 10
print("as the head of this script states" if seen else "CHANGED: not what the head of this script states")
sys.exit(not seen)
PYTHON
"$folder/venv/bin/python" "$folder/try.py" "$folder"
