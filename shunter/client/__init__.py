"""The Python client of a running daemon, synchronous and asynchronous."""

from shunter.client.clients import AsyncClient, Client
from shunter.client.futures import AsyncJobHandle, JobHandle
from shunter.client.requests import Followed

__all__ = ["AsyncClient", "AsyncJobHandle", "Client", "Followed", "JobHandle"]
