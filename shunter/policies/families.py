"""The policies of this distribution in families: which there are, and when to use which."""

from typing import NamedTuple


class Family(NamedTuple):
    """Policies that are alike, and what a cluster is like for which they are meant."""

    name: str
    when: str
    policies: tuple[str, ...]


FAMILIES = (
    Family(
        "First in, first out",
        "where people expect a queue; `fifo_easy` fills its gaps, by the time limits of jobs",
        ("fifo", "fifo_easy", "fifo_backfill"),
    ),
    Family(
        "Least attained service",
        "where nobody knows run times, and long jobs may be suspended for short ones",
        ("las", "tiresias", "gittins", "shortest_expected"),
    ),
    Family(
        "Shortest first",
        "where run times are known: simulations, or jobs that tell their steps or a time limit",
        ("srtf", "sjf", "shortest_gpu", "tetris"),
    ),
    Family(
        "Smallest first",
        "where small jobs are to pass large ones; `drf` counts CPUs and memory as well as GPUs",
        ("smallest", "drf"),
    ),
    Family(
        "Worst off by sharing first",
        "where run times are known, and no job is to be slowed down far more than the others",
        ("ftf",),
    ),
    Family(
        "Fairness among users",
        "where users, queues or groups are to get equal parts, whoever submits most",
        ("two_level",),
    ),
    Family(
        "Fair shares by GPU type (Gavel)",
        "where jobs differ in how much faster newer GPU types are for them",
        (
            *("gavel", "max_min_fairness", "water_filling", "hierarchical"),
            *("finish_time_fairness", "gandiva_fair", "isolated", "proportional"),
        ),
    ),
    Family(
        "Goals of a whole cluster (Gavel)",
        "where throughput, cost or finish times count for more than fairness",
        (
            *("max_sum_throughput", "makespan", "min_cost", "min_cost_slo"),
            *("shortest_job_first", "allox"),
        ),
    ),
    Family(
        "Turns on shared GPUs",
        "where jobs are many and short, or tried out, and each should start at once",
        ("gandiva",),
    ),
)
"""Each policy of ours in one family; those of other packages are in none."""
