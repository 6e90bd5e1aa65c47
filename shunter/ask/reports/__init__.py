"""A report on one or more runs: one HTML file with its data, which opens from disk.

log ─▶ fold ─▶ curves, slices on GPUs, stories of jobs ─▶ one JSON document ─▶ page
"""

__all__: list[str] = []
