"""What Gavel's authors published: figures stored in the notebooks of the public code.

Average completion times in hours on 36 V100, 36 P100 and 36 K80, jobs 4,000 to 5,000 of seed 0,
of one GPU and with gangs; makespans of static traces with gangs. The `fifo` of the public code puts
every job on a V100 while there are any, whatever it was to draw, so its curve at low rates is too
low for one that takes GPUs as they come.
"""

from typing import Final

CLAIMED_RATIO: Final = 3.5
"""Up to so many times lower an average completion time, aware against agnostic (OSDI 2020)."""

CLAIMED_SOLVE_S: Final = 60.0
"""For 2,048 jobs."""

AVERAGES_H: Final[dict[str, dict[float, float]]] = {
    "FIFO": {0.4: 17.58, 2.0: 18.32, 4.0: 25.38, 5.2: 151.67},
    "FIFO, aware": {0.4: 15.31, 2.0: 15.45, 4.0: 17.08, 5.2: 56.69, 5.6: 104.12},
    "LAS": {0.4: 23.26, 2.0: 23.47, 4.0: 23.49, 4.8: 35.79, 5.2: 63.78, 5.6: 95.99},
    "LAS, aware": {0.4: 17.58, 2.0: 16.95, 4.0: 16.82, 4.8: 18.97, 5.2: 22.02, 5.6: 28.96},
    "LAS, aware, shared": {0.4: 18.42, 2.0: 18.26, 4.0: 16.96, 5.2: 19.14, 5.6: 19.64},
    "FTF": {0.4: 23.26, 2.0: 23.47, 4.0: 23.43, 5.2: 64.46, 5.6: 85.54},
    "FTF, aware": {0.4: 17.58, 2.0: 17.07, 4.0: 17.57, 5.2: 23.38, 5.6: 30.47},
    "AlloX": {0.4: 17.58, 2.0: 16.93, 4.0: 17.13, 5.2: 21.96, 5.6: 25.32},
}
"""By policy and jobs of one GPU an hour."""

GANG_AVERAGES_H: Final[dict[str, dict[float, float]]] = {
    "LAS": {0.2: 25.93, 1.0: 26.10, 1.6: 26.51, 2.0: 28.91, 2.4: 38.71, 2.6: 70.54, 2.8: 169.93},
    "LAS, aware": {0.2: 18.55, 1.0: 18.54, 1.6: 19.12, 2.0: 21.90, 2.4: 30.03, 2.6: 36.44},
}
"""By policy and jobs an hour, gangs of up to 8 GPUs among them."""

MAKESPANS_H: Final[dict[str, dict[int, float]]] = {
    "FIFO": {100: 182.3, 300: 295.6, 500: 426.6, 700: 619.5},
    "makespan, aware": {100: 161.2, 300: 161.2, 500: 169.4, 700: 244.2},
    "makespan, aware, shared": {100: 163.6, 300: 161.2, 500: 168.1, 700: 226.2},
}
"""By policy and number of jobs."""

SOLVE_S: Final[dict[str, dict[int, float]]] = {
    "LAS, aware": {128: 0.012, 256: 0.014, 512: 0.023, 1024: 0.032, 2048: 0.060},
    "LAS, aware, shared": {128: 0.47, 256: 3.5, 512: 42.0},
}
"""What the public code took when we ran it (cvxpy and ECOS, one thread, a quiet machine)."""
