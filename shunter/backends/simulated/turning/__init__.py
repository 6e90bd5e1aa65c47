"""Jobs of the simulated world that share GPUs in turns."""

__all__: list[str] = []
