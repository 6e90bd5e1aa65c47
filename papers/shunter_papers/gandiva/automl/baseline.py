"""The baseline in closed form: one configuration after the other on each GPU, to its end.

All trainings are equally long, so 100 configurations on 16 GPUs run in seven waves, and one that
comes at place i begins after i // 16 trainings. A test holds this to the simulator (`fifo`).
"""

from collections.abc import Sequence

from shunter_papers.gandiva.automl.curves import Curve
from shunter_papers.gandiva.automl.figures import EPOCH_S, GPUS


def first_min(curves: Sequence[Curve], threshold: float) -> float | None:
    """Return the minutes to the first accuracy above a threshold.

    None: there is no such configuration.

    Args:
        curves: the configurations, in the order in which they are tried.
        threshold: an accuracy, from 0 to 1.
    """
    times = [
        (slot // GPUS * curve.epochs + epochs) * EPOCH_S / 60
        for slot, curve in enumerate(curves)
        if (epochs := curve.epochs_to(threshold)) is not None
    ]
    return min(times, default=None)
