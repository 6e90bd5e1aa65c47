"""Runs: one simulation, several compared, and the demonstration."""

from shunter.app.runs.comparison import compare
from shunter.app.runs.setup import load_jobs, rebuild
from shunter.app.runs.simulation import RunResult, simulate

__all__ = ["RunResult", "compare", "load_jobs", "rebuild", "simulate"]
