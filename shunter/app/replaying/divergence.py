"""The first decision that came out otherwise: what was recorded, what was replayed, where."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from shunter import __version__
from shunter.app.replaying.instants import clock
from shunter.app.replaying.wording import fact_in_words
from shunter.core.ports import Policy
from shunter.errors import ReplayDivergenceError
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event


@dataclass(frozen=True)
class Difference:
    """A field of a fact and its two values; no field where a fact stands alone."""

    field: str
    recorded: str
    replayed: str


@dataclass(frozen=True)
class Divergence:
    """Where recorded and replayed decisions part.

    `decision` counts the rounds of the log from 1, `seq` is the event that differs (or the one
    that stands where another was expected). `chain` is the hash over all frames up to its own.
    """

    decision: int
    round_number: int
    seq: int
    at_us: int
    recorded: Event | None
    replayed: Event | None
    why: str
    started: SchedulerStarted
    policy: Policy[Any]
    chain: str = ""
    state_digest: str = ""

    @property
    def difference(self) -> Difference:
        """The first field that differs."""
        if self.recorded is None or self.replayed is None:
            return Difference("", shown(self.recorded), shown(self.replayed))
        return first_difference(self.recorded, self.replayed)

    def lines(self) -> list[str]:
        """Return the explanation, line by line."""
        started, policy, found = self.started, self.policy, self.difference
        where = f"e{self.seq}, {clock(self.at_us)}, round {self.round_number}"
        lines = [
            f"diverged at decision {self.decision} ({where}): {self.why}",
            f"  recorded  {fact_in_words(self.recorded)}",
            f"  replayed  {fact_in_words(self.replayed)}",
        ]
        if found.field:
            lines.append(
                f"  first differing field  {found.field}: {found.recorded} recorded, "
                f"{found.replayed} replayed"
            )
        rules = f"{started.policy} {started.policy_version} -> {policy.name} {policy.version}"
        lines.append(
            f"  inputs identical  yes: chain {self.chain[:16]}, state {self.state_digest[:16]}"
        )
        lines.append(f"  code  {started.version} -> {__version__}   policy  {rules}")
        return lines

    def document(self) -> dict[str, Any]:
        """Return the explanation as JSON-able data."""
        from shunter.events.schema import to_object

        found = self.difference
        return {
            "decision": self.decision,
            "round": self.round_number,
            "seq": self.seq,
            "at_us": self.at_us,
            "time": clock(self.at_us),
            "why": self.why,
            "recorded": None if self.recorded is None else to_object(self.recorded),
            "replayed": None if self.replayed is None else to_object(self.replayed),
            "field": found.field,
            "values": {"recorded": found.recorded, "replayed": found.replayed},
            "inputs_identical": True,
            "chain": self.chain,
            "state_digest": self.state_digest,
            "code": {"recorded": self.started.version, "replayed": __version__},
            "policy": {
                "name": self.started.policy,
                "recorded": self.started.policy_version,
                "replayed": self.policy.version,
            },
        }

    def error(self) -> ReplayDivergenceError:
        """Return the error that says all this."""
        return ReplayDivergenceError("\n".join(self.lines()), self.seq)


def first_difference(recorded: Event, replayed: Event) -> Difference:
    """Return the first field in which two facts differ."""
    if type(recorded) is not type(replayed):
        return Difference("kind", type(recorded).__name__, type(replayed).__name__)
    for path, one, other in _differences("", recorded, replayed):
        return Difference(path, shown(one), shown(other))
    return Difference("", shown(recorded), shown(replayed))


def shown(value: Any) -> str:
    """Return a value as it is written in an explanation."""
    return "nothing" if value is None else str(value)


def _differences(path: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths of the leaves that differ, with both values."""
    if one == other:
        return
    if is_dataclass(one) and type(one) is type(other):
        for field in fields(one):
            name = f"{path}.{field.name}" if path else field.name
            yield from _differences(name, getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, tuple) and isinstance(other, tuple):
        if len(one) != len(other):
            yield f"{path} (how many)", len(one), len(other)
        for i, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            yield from _differences(f"{path}[{i}]", mine, theirs)
    else:
        yield path, one, other
