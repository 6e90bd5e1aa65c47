"""The command line: each command is a thin module; what it does is imported when it runs."""

from shunter.app.cli.application import app, main

__all__ = ["app", "main"]
