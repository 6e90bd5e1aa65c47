"""Index policies as if they were somebody else's: the approver checks what they plan."""

from shunter.core.planning import is_our_own
from shunter.core.ranking import RankedPolicy


class Doubted(RankedPolicy):
    """An index policy whose class is not Shunter's."""


def doubted(policy: RankedPolicy) -> RankedPolicy:
    """Return the same policy, not believed."""
    found = Doubted(policy.index, policy.placement, policy.default_limit_us)
    assert not is_our_own(found)
    return found
