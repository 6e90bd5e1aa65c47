"""Servers, their GPUs, and the index that placement searches."""

from shunter.core.cluster.cluster import CPU_POOL, Cluster
from shunter.core.cluster.pool import Pool
from shunter.core.cluster.server import Health, Server
from shunter.core.cluster.tenants import Gpu, PlannedTenants, Tenants, gpus_of
from shunter.core.cluster.usable import UsableGpus

__all__ = [
    "CPU_POOL",
    "Cluster",
    "Gpu",
    "Health",
    "PlannedTenants",
    "Pool",
    "Server",
    "Tenants",
    "UsableGpus",
    "gpus_of",
]
