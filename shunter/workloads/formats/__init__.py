"""The file formats of traces: a folder, so that a start reads only those that are asked for."""

__all__: list[str] = []
