"""The problems of the public Gavel simulator as its solver saw them, row by row and digit by digit.

Where an optimum is not unique, ECOS stops somewhere on its face, and who runs when follows from
where. So each problem is stated here as cvxpy states it to ECOS there: the same unknowns, rows and
orders of both, every number computed by the same operations. The fractions are then the same to the
last digit, and so are the runs.
"""

from shunter_peers.gavel.forms import Form, Kind

__all__ = ["Form", "Kind"]
