"""Tables of what distance, neighbours and packing leave of the speed of models."""

from shunter.workloads.factors.reading import BUILTIN_FACTORS, FactorFile, load_factors

__all__ = ["BUILTIN_FACTORS", "FactorFile", "load_factors"]
