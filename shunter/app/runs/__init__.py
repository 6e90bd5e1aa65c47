"""Runs: one simulation, several compared, and the demonstration."""
