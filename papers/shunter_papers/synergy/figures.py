"""What Synergy's authors published, and what their public simulator gives when it is run.

The slides of OSDI 2022 compare a deployment and the simulator on 32 GPUs: 4 servers of 8 GPUs, 24
CPUs and 500 GB. The jobs are those of the public code (commit 1bb2bed): `static`, 100 that are all
there from the beginning (deploy_trace/static_100job_6_3_1100.0), and `dynamic`, 100 that arrive in
3.3 hours (deploy_trace/dynamic/srtf.log). We ran that code on these traces, `opt` with HiGHS: it
does not give the slides' figures exactly.
"""

from dataclasses import dataclass
from typing import Final, Literal

Measure = Literal["makespan", "mean JCT", "p99 JCT"]

CLAIMED_RATIO: Final = 3.4
"""Up to so many times lower an average completion time, against proportional shares (abstract)."""


@dataclass(frozen=True)
class Published:
    """Hours of one mechanism: deployed, simulated, and by the public code."""

    deployed: float | None
    simulated: float
    public_code: float


SLIDES_H: Final[dict[tuple[str, Measure], dict[str, Published]]] = {
    ("fifo", "makespan"): {
        "proportional": Published(16.0, 15.67, 15.250),
        "tune": Published(11.6, 11.33, 11.000),
        "opt": Published(None, 11.01, 10.584),
    },
    ("srtf", "mean JCT"): {
        "proportional": Published(4.81, 4.52, 3.907),
        "tune": Published(3.21, 3.19, 3.188),
        "opt": Published(None, 3.06, 3.093),
    },
    ("srtf", "p99 JCT"): {
        "proportional": Published(17.32, 16.85, 14.191),
        "tune": Published(8.29, 8.54, 10.268),
        "opt": Published(None, 8.21, 10.263),
    },
}
"""By order and measure, then mechanism; makespans of `static`, completion times of `dynamic`."""
