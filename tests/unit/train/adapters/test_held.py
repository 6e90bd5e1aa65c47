"""What a callback of a trainer holds is kept as far as it is numbers, texts and arrays."""

from typing import Any

import numpy as np

from shunter.train.adapters.held import Held, digests, is_plain


class Stopping:
    """As callbacks are that stop early."""

    def __init__(self) -> None:
        self.patience = 3
        self.best: list[float] = []
        self.compare = min
        self.history: dict[str, list[float]] = {}
        self.data = np.arange(4)
        self.weights: Any = None


def test_what_a_callback_holds_goes_over_to_the_next_attempt_without_data_that_stays() -> None:
    before, after = Stopping(), Stopping()
    held = Held(before, left_out=("patience",))
    before.best.append(0.5)
    before.weights = [np.ones(2)]
    saved = held.state_dict()
    assert sorted(saved) == ["best", "history", "weights"]
    Held(after).load_state_dict(saved)
    assert (after.best, after.patience) == ([0.5], 3)
    assert after.weights[0].tolist() == [1.0, 1.0]


def test_dict_that_the_script_gave_a_callback_is_filled_and_not_replaced() -> None:
    callback = Stopping()
    given = callback.history
    Held(callback).load_state_dict({"history": {"loss": [1.0]}})
    assert given == {"loss": [1.0]}


def test_array_that_changed_in_place_is_kept() -> None:
    callback = Stopping()
    held = Held(callback)
    callback.data[0] = 7
    assert held.state_dict()["data"].tolist() == [7, 1, 2, 3]


def test_callback_that_says_its_state_itself_is_asked() -> None:
    class Own(Stopping):
        def state_dict(self) -> dict[str, int]:
            return {"number": 5}

        def load_state_dict(self, saved: dict[str, int]) -> None:
            self.patience = saved["number"]

    callback = Own()
    held = Held(callback)
    held.load_state_dict(held.state_dict())
    assert callback.patience == 5


def test_functions_and_objects_are_not_plain() -> None:
    assert not is_plain({"key": [min]})
    assert not is_plain(np.array([object()]))
    assert is_plain({"key": (1, 2.0, None, "text", np.float32(1))})
    assert "compare" not in digests(Stopping())
