"""The mechanism of Gavel: from target fractions of time to who runs where in the next round.

Narayanan et al., OSDI 2020, section 5. Any policy that yields target fractions can use it.
"""

from shunter.policies.gavel.mechanism.ledger import Ledger, priority
from shunter.policies.gavel.mechanism.rules import CORRECTED, PEER, Rules, carried
from shunter.policies.gavel.mechanism.seating import Seat, seat
from shunter.policies.gavel.mechanism.selection import Chosen, Gangs, select
from shunter.policies.gavel.mechanism.targets import Claim, Fractions, Gang, Targets, Wanted
from shunter.policies.gavel.mechanism.twister import Twister

__all__ = [
    "CORRECTED",
    "PEER",
    "Chosen",
    "Claim",
    "Fractions",
    "Gang",
    "Gangs",
    "Ledger",
    "Rules",
    "Seat",
    "Targets",
    "Twister",
    "Wanted",
    "carried",
    "priority",
    "seat",
    "select",
]
