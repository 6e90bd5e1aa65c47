"""What is wrong with a table of throughputs, collected: one line each, the first few in full."""

from collections.abc import Mapping

from shunter.core.speeds.speed_model import JobKind
from shunter.errors import ConfigError

RATE_MIN = 1e-9
"""A step in thirty years: a ratio of two rates is a number still."""

RATE_MAX = 1e12

_SHOWN_MOST = 5


class Faults:
    """The faults of one table."""

    def __init__(self, name: str) -> None:
        """Start with none; `name` is what messages call the table."""
        self._name = name
        self._lines: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Note one fault."""
        self._lines.append(f"{self._name}: {where}: {what}")

    def table(self, value: object, where: str) -> Mapping[str, object]:
        """Return a JSON object; an empty one, and a fault, for anything else."""
        if isinstance(value, dict):
            return value
        self.add(where, f"expected an object, not {_shown(value)}")
        return {}

    def refuse(self) -> None:
        """Raise ConfigError if there is any fault."""
        if self._lines:
            lines = self._lines[:_SHOWN_MOST]
            if hidden := len(self._lines) - len(lines):
                lines.append(f"{self._name}: and {hidden} more faults")
            raise ConfigError("\n".join(lines))

    def rate(self, value: object, where: str) -> float:
        """Return a rate; 0, and a fault, for what is none."""
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
        if number == 0 or RATE_MIN <= number <= RATE_MAX:
            return float(number)
        self.add(
            where,
            f"expected steps per second, 0 or {RATE_MIN:g} to {RATE_MAX:g}, not {_shown(value)}",
        )
        return 0.0


def kind_text(kind: JobKind) -> str:
    """Return a kind as messages name it."""
    return f"{kind.model!r} on {kind.gpus} GPU{'s' if kind.gpus > 1 else ''}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
