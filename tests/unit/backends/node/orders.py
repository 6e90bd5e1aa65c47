"""An order as an agent gets it, with what a test does not name filled in."""

from typing import Any

from shunter.backends.node import Order

__all__ = ["order_of"]

SUSPEND = {"mode": "cooperative", "signal": 10, "cooperative_s": 1, "signal_s": 1, "restart_s": 1}


def order_of(**fields: Any) -> Order:
    """Return an order with these fields, given as they come as JSON."""
    usual = {"job": "j0", "attempt": 1, "term": 1, "placement": [], "ranks": [], "grace_s": 1.0}
    return Order.decoded({**usual, "suspend": SUSPEND, **fields})
