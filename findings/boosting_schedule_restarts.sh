#!/bin/sh
# XGBoost and LightGBM begin a schedule of learning rates again where training goes on from a model, in silence.
#
# Believed: a job that saved its model after 10 of 20 rounds, and is started again with that model and the 10 rounds that are
#   left (`xgb_model`, `init_model`), trains as one of 20 rounds does: trees are added to trees. Both libraries know how many
#   rounds the model has (EarlyStopping of XGBoost adds them; LightGBM gives callbacks iterations from 10 on).
# Seen: without a schedule that is so, tree for tree. With LearningRateScheduler, or reset_parameter, the schedule begins at
#   its first value again, so all trees after the stop are others; with a list of 20 rates LightGBM raises instead, but not
#   with a function. XGBoost numbers the rounds from 0 again for every callback.
# Not found in their documentation: xgb_model and init_model are described as "training continuation", the schedule as one by
#   the number of the round.
# Remedy: add the rounds of the model to the number that the schedule is given.
# Versions: xgboost 3.2.0, lightgbm 4.7.0, numpy 2.4.6, scipy 1.17.1, Python 3.11. Date: 2026-11-29.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check xgboost==3.2.0 lightgbm==4.7.0 numpy==2.4.6 scipy==1.17.1
cat > "$folder/try.py" <<'PYTHON'
import pathlib
import sys

import lightgbm
import numpy as np
import xgboost

folder = pathlib.Path(sys.argv[1])
draws = np.random.default_rng(0)
x = draws.normal(size=(500, 6))
y = x[:, 0] * x[:, 1] + x[:, 2]
asked = []


def rate(number):
    asked.append(number)
    return 0.3 * 0.9**number


def xgboost_trained(rounds, model, is_scheduled):
    schedule = [xgboost.callback.LearningRateScheduler(rate)] if is_scheduled else []
    parameters = {"max_depth": 3, "nthread": 1}
    data = xgboost.DMatrix(x, y)
    booster = xgboost.train(parameters, data, rounds, xgb_model=model, callbacks=schedule)
    path = folder / "model.ubj"
    booster.save_model(path)
    return booster.get_dump(with_stats=True), str(path)


def lightgbm_trained(rounds, model, is_scheduled):
    schedule = [lightgbm.reset_parameter(learning_rate=rate)] if is_scheduled else []
    parameters = {"num_leaves": 7, "num_threads": 1, "deterministic": True, "verbosity": -1}
    data = lightgbm.Dataset(x, y, free_raw_data=False)
    booster = lightgbm.train(parameters, data, rounds, init_model=model, callbacks=schedule)
    path = folder / "model.txt"
    booster.save_model(path)
    trees = booster.model_to_string().partition("\nparameters:")[0].split("\nTree=")[1:]
    return [tree.partition("\n")[2] for tree in trees], str(path)


print("python", sys.version.split()[0], "xgboost", xgboost.__version__, "lightgbm", lightgbm.__version__, "numpy", np.__version__)
equal = {}
for trained in (xgboost_trained, lightgbm_trained):
    for is_scheduled in (False, True):
        whole, _ = trained(20, None, is_scheduled)
        _, model = trained(10, None, is_scheduled)
        asked.clear()
        rest, _ = trained(10, model, is_scheduled)
        same = [one == other for one, other in zip(whole, rest)]
        equal[trained.__name__, is_scheduled] = (all(same[:10]), all(same[10:]))
        print(f"{trained.__name__}, schedule {is_scheduled}: trees equal before the stop {all(same[:10])}, after it {sum(same[10:])} of 10")
        if is_scheduled:
            print("    numbers that the schedule was given after the stop:", asked)
expected = {key: (True, not key[1]) for key in equal}
print("as the head of this script states" if equal == expected else "CHANGED: not what the head of this script states")
sys.exit(equal != expected)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/try.py" "$folder"
