"""The sections of a config file that only a live cluster reads."""

from shunter.app.config.live.backend import BackendSection, LocalSection
from shunter.app.config.live.server import ServerSection, TlsSection

__all__ = ["BackendSection", "LocalSection", "ServerSection", "TlsSection"]
