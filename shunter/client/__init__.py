"""The Python client of a running daemon, synchronous and asynchronous."""

from shunter.client.asynchronous import AsyncClient
from shunter.client.futures import AsyncJobHandle, JobHandle
from shunter.client.requests import Followed
from shunter.client.synchronous import Client

__all__ = ["AsyncClient", "AsyncJobHandle", "Client", "Followed", "JobHandle"]
