"""Servers reached over SSH as a cluster; nothing is installed on them."""

from shunter.backends.ssh.backend import SshBackend
from shunter.backends.ssh.settings import SshAccess, SshHost, SshSettings

__all__ = ["SshAccess", "SshBackend", "SshHost", "SshSettings"]
