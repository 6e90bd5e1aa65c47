"""Runs: one simulation, several compared, and the demonstration."""

from shunter.run.comparison import compare
from shunter.run.setup import load_jobs, rebuild
from shunter.run.simulation import RunResult, simulate

__all__ = ["RunResult", "compare", "load_jobs", "rebuild", "simulate"]
