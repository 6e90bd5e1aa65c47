"""Trace files of tests, as those of Shunter's own formats."""

from tests.unit.workloads.conftest import samples, shared_traces, write

__all__ = ["samples", "shared_traces", "write"]
