"""`[server]`: where the daemon listens, and whom it knows. No part of it changes a decision."""

from ipaddress import ip_address
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from shunter.addresses import TcpAddress, UnixAddress, parse_address
from shunter.config.section import Section
from shunter.errors import UsageError

BODY_BYTES_MOST = 1_048_576
"""A submission is a few hundred bytes; this is room for one with thousands of arguments."""


def _as_tuple(value: object) -> object:
    """Let one stand for a list of one; strict models want tuples from Python."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class TlsSection(Section):
    """The certificate of a daemon that others than this machine may reach."""

    certificate: str = Field(min_length=1, description="a PEM file with the whole chain")
    key: str = Field(min_length=1, description="a PEM file with the private key")


class ServerSection(Section):
    """Who may talk to a live cluster, and where."""

    listen: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = Field(
        default=("unix:",),
        min_length=1,
        description="'unix:' (the usual socket of this user), 'unix:PATH', 'tcp:HOST:PORT'; "
        "one or a list",
    )
    socket_mode: Literal["0600", "0660", "0666"] = Field(
        default="0600",
        description="who may open the socket: the daemon's user, a group, everybody; "
        "the kernel tells who it was",
    )
    socket_group: str | None = Field(default=None, description="the group of the socket")
    token_file: str | None = Field(
        default=None, description="a file of mode 0600 with a line 'TOKEN USER' for each user"
    )
    tls: TlsSection | None = Field(default=None, description="for addresses others can reach")
    admins: tuple[str, ...] = Field(
        default=(),
        description="users who may act on everybody's jobs and on servers; "
        "root and the daemon's own user may anyway",
    )
    proposers: tuple[str, ...] = Field(
        default=(),
        description="users whose schedulers may propose places for their own jobs "
        "(policy.decentralised); admins may for everybody's",
    )
    proposals_per_s: float = Field(
        default=50.0,
        gt=0,
        le=10_000,
        allow_inf_nan=False,
        description="how often one of them may do so, and as often at once after a second of rest",
    )
    hosts: tuple[str, ...] = Field(
        default=(), description="names by which proxies and tunnels reach the daemon over TCP"
    )
    body_bytes_most: int = Field(
        default=BODY_BYTES_MOST, ge=1024, le=2**30, description="a longer request is refused"
    )

    @property
    def addresses(self) -> tuple[UnixAddress | TcpAddress, ...]:
        """Where it listens."""
        return tuple(parse_address(text) for text in self.listen)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        try:
            addresses = self.addresses
        except UsageError as error:
            raise ValueError(f"listen: {error}") from error
        for address in addresses:
            if isinstance(address, UnixAddress):
                continue
            if address.has_tls:
                raise ValueError("listen: write tcp:HOST:PORT; [server.tls] says that it has TLS")
            if self.token_file is None:
                raise ValueError(
                    f"listen: {address} needs to know who calls: expected token_file = 'FILE'"
                )
            if not is_loopback(address.host) and self.tls is None:
                raise ValueError(
                    f"listen: {address} can be reached from elsewhere: expected [server.tls], "
                    "or a loopback address such as tcp:127.0.0.1:8711"
                )
        return self


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches an address; a name counts as public."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
