"""`shunter up` and `shunter down`: a daemon in the background, without a service manager.

    config (written if there is none) ─▶ daemon started ─▶ READY=1 ─▶ said where it is

The daemon is `shunter serve` in a session of its own; all that is true of it is asked of it, or of
the kernel, so there is no file with its process id that could be wrong.
"""

from shunter.cli.up.commands import down, up

__all__ = ["down", "up"]
