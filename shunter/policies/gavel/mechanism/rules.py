"""Where the paper's intent and the public simulator differ in the mechanism.

The corrected rules compute new fractions at the first round after anything changed, count what a
gang received from nothing, and let nobody take room who cannot be placed. Where fractions are
computed more often than rounds are short, nothing would ever add up so; `carried` goes on counting
over computations instead, and orders by differences, not ratios: in random instances of 40 jobs on
3 types, ratios leave a job up to 12 rounds from its target, differences 3. The peer's wait at least
1920 seconds, take an instant of 0 for "never", begin each count with half a round, and let jobs
without fractions take room in which nobody runs then.
"""

from typing import Final

from shunter.events.values.fact import fact

__all__ = ["CORRECTED", "PEER", "Rules", "carried"]


@fact
class Rules:
    """How the mechanism counts.

    Attributes:
        reset_s: the least time between two computations of the fractions.
        seed_s: what each gang has received of each type right after a computation.
        pair_seed_s: what a pair has received when its second job comes.
        zero_is_never: take a computation at 0 s for none, so that the next may come at once.
        unplanned_take_room: choose jobs without fractions too, and then place them nowhere.
        window_s: count shares of the time since a computation and so long before it, in which
            everybody is taken to have received the new target, less what the old one still owed
            (half the window at most). Then gangs are ordered by the time they are owed.
            0: of the time of all gangs since the computation, and by ratios, as the paper does.
    """

    reset_s: float = 0.0
    seed_s: float = 0.0
    pair_seed_s: float = 0.0
    zero_is_never: bool = False
    unplanned_take_room: bool = False
    window_s: float = 0.0


CORRECTED: Final = Rules()
PEER: Final = Rules(1920.0, 180.0, 0.0, zero_is_never=True, unplanned_take_room=True)


def carried(window_s: float, reset_s: float = 0.0) -> Rules:
    """Return rules that carry over what is owed, within a window above 0 s."""
    return Rules(reset_s=reset_s, window_s=window_s)
