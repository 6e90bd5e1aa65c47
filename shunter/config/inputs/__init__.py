"""The files a config names beside its trace: read once, at the edge, into plain values."""

from shunter.config.inputs.text import read_text
from shunter.config.inputs.tiresias_cluster import SwitchGroup, read_cluster

__all__ = ["SwitchGroup", "read_cluster", "read_text"]
