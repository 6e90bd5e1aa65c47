"""The map of the GPUs inside a server: as the server tells it, and as a config gives it."""

from shunter.daemon.gpu_maps.found_map import FoundMap, found_map, found_map_of
from shunter.daemon.gpu_maps.server_map import ServerMap, server_map

__all__ = ["FoundMap", "ServerMap", "found_map", "found_map_of", "server_map"]
