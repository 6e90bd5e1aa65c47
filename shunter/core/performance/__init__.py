"""How fast jobs run where: by GPU type, neighbours, distance, and CPUs and memory."""

__all__ = ["correction", "model_factors", "sensitivity", "speed_model", "throughputs"]
