"""Traces of any kind that makes them up, by the choices that a test names."""

from dataclasses import replace

from shunter.workloads import Choices, Trace, generate_trace


def made(
    kind: str,
    jobs: int = 500,
    load: float = 0.9,
    *,
    cluster_gpus: int,
    gpus_max: int | None = None,
    **choices: object,
) -> Trace:
    """Return a trace of the seed 7."""
    return generate_trace(
        kind,
        jobs=jobs,
        load=load,
        cluster_gpus=cluster_gpus,
        seed=7,
        gpus_max=gpus_max,
        choices=replace(Choices(), **choices),  # type: ignore[arg-type]  # tests name the fields
    )
