"""XGBoost: suspended after any round, resumed exactly.

python train_xgboost.py [gbtree | dart]
"""

import sys

import numpy as np
import xgboost

from shunter.train import check
from shunter.train.adapters.xgboost import suspension

ROUNDS = 24


class Seen(xgboost.callback.TrainingCallback):
    """Shows a check what each round has come to."""

    def after_iteration(self, model, epoch, evals_log):
        check.saw(epoch=0, round=epoch, errors=evals_log)
        return False


draws = np.random.default_rng(0)
x = draws.normal(size=(400, 8))
y = x[:, 0] * x[:, 1] + x[:, 2] + 0.3 * draws.normal(size=400)
data, held_out = xgboost.DMatrix(x[:300], y[:300]), xgboost.DMatrix(x[300:], y[300:])
parameters = {
    "objective": "reg:squarederror",
    "max_depth": 3,
    "eta": 0.3,
    "seed": 3,
    "nthread": 1,
    "subsample": 0.7,
    "colsample_bytree": 0.6,
    "seed_per_iteration": True,  # else it draws from a state that is in no file
}
if "dart" in sys.argv:
    parameters.update(booster="dart", rate_drop=0.2)
callback = suspension()
booster = xgboost.train(
    parameters,
    data,
    ROUNDS - callback.rounds_done,
    xgb_model=callback.model,
    evals=[(data, "train"), (held_out, "held_out")],
    callbacks=[
        xgboost.callback.LearningRateScheduler(lambda number: 0.3 * 0.97**number),
        xgboost.callback.EarlyStopping(rounds=8),
        callback,
        Seen(),
    ],
    verbose_eval=False,
)
print(booster.num_boosted_rounds(), booster.best_iteration, booster.best_score)
