"""The composition root: config, runs and the command line. Only here do concrete classes meet."""

__all__: list[str] = []
