"""Orders and records of attempts as agents get and tell them, with what a test does not name."""

from typing import Any

from shunter.backends.node import Known, Order, Started, Status

__all__ = ["known_of", "order_of", "rank_of", "started_of", "status_of"]

SUSPEND = {"mode": "cooperative", "signal": 10, "cooperative_s": 1, "signal_s": 1, "restart_s": 1}


def order_of(**fields: Any) -> Order:
    """Return an order with these fields, given as they come as JSON."""
    usual = {"job": "j0", "attempt": 1, "term": 1, "placement": [], "ranks": [], "grace_s": 1.0}
    return Order.decoded({**usual, "suspend": SUSPEND, **fields})


def rank_of(*argv: str, **fields: Any) -> dict[str, Any]:
    """Return a rank of an order, as JSON."""
    return {"argv": argv or ("true",), "env": {}, "cpus": [], "directory": "/", **fields}


def started_of(**fields: Any) -> Started:
    """Return the record of a start."""
    usual: dict[str, Any] = {"boot": "b", "started_ns": 1, "pid": 1, "placement": [], "ranks": []}
    return Started.decoded({**usual, "port": 1, "gpus": [], **fields})


def status_of(**fields: Any) -> Status:
    """Return the record of an end."""
    usual = {"code": 0, "suspended": False, "why": "", "saved": False, "ended_ns": 2}
    return Status.decoded({**usual, **fields})


def known_of(state: str = "running", **fields: Any) -> Known:
    """Return what an agent tells of an attempt."""
    usual: dict[str, Any] = {"job": "j0", "attempt": 1, "folder": "", "state": state, "notes": []}
    usual |= {"started": None, "status": None, "after": 0, "facts": 0, "is_all": True}
    return Known.decoded({**usual, **fields})
