"""The tests of Shunter; a package, so that no installed `tests` can take its name."""

__all__: list[str] = []
