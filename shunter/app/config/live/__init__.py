"""The sections of a config file that only a live cluster reads."""

from shunter.app.config.live.backend import BackendSection, LocalSection

__all__ = ["BackendSection", "LocalSection"]
