"""Optimistic profiling of a job: measured at a few numbers of CPUs, modelled elsewhere.

job_file ─▶ machine (simulated or this one) ─▶ profiling ─▶ document, table, log
"""

__all__: list[str] = []
