"""The commands of a live cluster: the daemon, and what talks to it.

Nothing here imports the daemon or pydantic at its top: most of these commands are one request.
"""

__all__: list[str] = []
