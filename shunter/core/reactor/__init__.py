"""What follows from a fact, from the state, and from time, without any policy."""

from shunter.core.reactor.reactions import WATCHED, Before, Reactor, holds, orders_end

__all__ = ["WATCHED", "Before", "Reactor", "holds", "orders_end"]
