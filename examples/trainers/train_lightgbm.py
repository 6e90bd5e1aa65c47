"""LightGBM: suspended after any round, resumed exactly."""

import lightgbm
import numpy as np

from shunter.train import check
from shunter.train.adapters.lightgbm import suspension

ROUNDS = 24


def seen(env):
    """Show a check what each round has come to."""
    check.saw(
        epoch=0, round=env.iteration, errors=[list(each) for each in env.evaluation_result_list]
    )


draws = np.random.default_rng(0)
x = draws.normal(size=(400, 8))
y = x[:, 0] * x[:, 1] + x[:, 2] + 0.3 * draws.normal(size=400)
data = lightgbm.Dataset(x[:300], y[:300], free_raw_data=False)  # it predicts with the model before
held_out = lightgbm.Dataset(x[300:], y[300:], reference=data, free_raw_data=False)
parameters = {
    "objective": "regression",
    "num_leaves": 7,
    "num_threads": 1,
    "deterministic": True,
    "verbosity": -1,
    "bagging_fraction": 0.7,
    "bagging_freq": 3,
    "feature_fraction": 0.6,
}
callback = suspension(seed=1)
errors = {}
booster = lightgbm.train(
    parameters,
    data,
    ROUNDS - callback.rounds_done,
    init_model=callback.model,
    valid_sets=[held_out],
    callbacks=[
        lightgbm.reset_parameter(learning_rate=lambda number: 0.2 * 0.97**number),
        lightgbm.early_stopping(8, verbose=False),
        lightgbm.record_evaluation(errors),
        seen,
        callback,
    ],
)
print(booster.num_trees(), booster.best_iteration, errors["valid_0"]["l2"][-1])
