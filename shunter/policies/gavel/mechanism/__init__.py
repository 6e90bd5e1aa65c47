"""The mechanism of Gavel: from target fractions of time to who runs where in the next round.

Narayanan et al., OSDI 2020, section 5. Any policy that yields target fractions can use it.
"""

from shunter.policies.gavel.mechanism.ledger import Ledger
from shunter.policies.gavel.mechanism.targets import Demands, Fractions, Gang, JobRequest, Targets

__all__ = [
    "Demands",
    "Fractions",
    "Gang",
    "JobRequest",
    "Ledger",
    "Targets",
]
