"""The command line: each command is a thin module; what it does is imported when it runs."""

from shunter.cli.application import app, main

__all__ = ["app", "main"]
