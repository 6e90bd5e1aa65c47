"""At which event each of two logs is looked at: right before its decision at an instant.

The side that decides nothing of the kind there decided too, as a rule: its round left things as
they were. So it is looked at right before the first round that knew all that the other one's did.
If it planned no round after that, it is looked at where it knows as much.
"""

from collections import Counter
from collections.abc import Sequence

from shunter.app.diffs.steps import Fact, is_input
from shunter.app.replaying.lookup import last_up_to
from shunter.events.facts.decisions import RoundPlanned
from shunter.events.kinds import Event
from shunter.events.log import LogReader


async def moments_of(
    a: LogReader, b: LogReader, only_a: Sequence[Fact], only_b: Sequence[Fact], at_us: int
) -> tuple[int, int]:
    """Return the number of the last event before the decision of each log.

    Args:
        a: one log.
        b: the other.
        only_a: what A alone decides then.
        only_b: what B alone decides then; one of them decides something.
        at_us: the instant.
    """
    if only_a and only_b:
        return _before(only_a), _before(only_b)
    if only_a:
        seq = _before(only_a)
        return seq, await _as_much(b, at_us, await _inputs(a, at_us, seq))
    seq = _before(only_b)
    return await _as_much(a, at_us, await _inputs(b, at_us, seq)), seq


def _before(own: Sequence[Fact]) -> int:
    return min(fact.round_seq for fact in own) - 1


async def _inputs(reader: LogReader, at_us: int, to: int) -> Counter[Event]:
    """Return what came from outside at an instant, up to an event."""
    start = await last_up_to(reader, at_us - 1)
    return Counter([event async for event in reader.events(start, to) if is_input(event)])


async def _as_much(reader: LogReader, at_us: int, known: Counter[Event]) -> int:
    """Return the last event before the first round that knew some inputs.

    If there is no such round, it is the last event before an input that was not known.
    """
    start = await last_up_to(reader, at_us - 1)
    there = Counter[Event]()
    facts: list[Event] = []
    async for event in reader.events(start):
        if event.at_us > at_us:
            break
        facts.append(event)
        if is_input(event):
            there[event] += 1
    missing = known & there
    found: int | None = None
    for seq, event in enumerate(facts, start + 1):
        knows_all = not missing
        if knows_all and isinstance(event, RoundPlanned):
            return seq - 1
        if is_input(event):
            if knows_all and found is None:
                found = seq - 1
            missing -= Counter([event])
    return start + len(facts) if found is None else found
