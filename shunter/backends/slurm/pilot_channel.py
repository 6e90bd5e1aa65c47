"""Where pilots dial in: a listener that speaks TLS 1.3 with holders of our certificates only.

    pilot ──TCP──▶ TLS, both certificates ──▶ name and serial wanted? ──▶ hello ──▶ nonce, session

Who the pilot is, its certificate says; what it says itself decides nothing but which process of it
is there. The bytes that follow are those of the RPC session (`node.session`), handed over as
a stream that ends as an SSH channel does: a connection that is lost raises nothing by itself.

One pilot has one connection. A second one of the same process proves that the first is dead, since
a pilot opens none before it has closed the other: it wins at once. One of another process (a copied
file, a job that Slurm has requeued) is refused while the first lives, and wins once nothing has
come from that for `silent_s`; else two of them would take the node from each other for ever.

Who knows no key costs little: a connection must be authenticated within `handshake_s`, and of
`half_open_max` that are not, the oldest makes room for the next.
"""

import json
import os
import re
import secrets
import socket
import ssl
import stat
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Literal, Protocol

import anyio
import msgspec
from anyio.abc import Listener, SocketAttribute, SocketListener, SocketStream, TaskStatus
from anyio.streams.tls import TLSAttribute, TLSStream
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shunter import clock
from shunter.backends.node import (
    PILOT_LINE_BYTES_MOST,
    PILOT_VERSION,
    SERVER_NAME,
    PilotFile,
    create_private,
)
from shunter.errors import BackendError, ConfigError

# One authority a cluster (`pilots.pem`, mode 0600) signs a certificate for each pilot. The private
# key is in the pilot's file on the shared file system (0600), never in argv, environment or script:
#
#     {"name": …, "addresses": …, "port": …, "trust": the daemon's certificate, …}     one line
#     -----BEGIN PRIVATE KEY-----   the pilot's
#     -----BEGIN CERTIFICATE-----   the pilot's
#
# Extended key usage keeps a pilot from posing as the daemon. P-256, since machines in FIPS mode
# refuse Ed25519. A job of the same account could read the file: the account is the border.

AUTHORITY_FILE = "pilots.pem"
AUTHORITY_VALID_S = 20 * 365 * 86_400
CLOCK_SKEW_S = 600.0  # more than munge, and with it Slurm, lets clocks differ
PRIVATE = 0o077
PILOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class PilotCertificate:
    """The certificate of one pilot, without its key; the newest serial counts."""

    name: str
    serial: int
    path: Path


class ClusterAuthority:
    """The key pair of one daemon, which signs for its pilots."""

    def __init__(
        self, path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
    ) -> None:
        self._path, self._key, self._certificate = path, key, certificate

    @classmethod
    def load(cls, root: Path, wall_s: float) -> "ClusterAuthority":
        """Read the key pair below a daemon's root; make it if there is none.

        Raises:
            ConfigError: others can read it, or it is none.
        """
        path = root / AUTHORITY_FILE
        if not path.exists():
            _write_private(path, _made(wall_s), replaces=False)
        _check_private(path)
        content = path.read_bytes()
        try:
            key = serialization.load_pem_private_key(content, None)
            certificate = x509.load_pem_x509_certificate(content)
        except ValueError as error:
            raise ConfigError(
                f"{path} is no key pair of pilots: {error}; remove it once all pilots have "
                "ended, and a new one is made"
            ) from error
        assert isinstance(key, ec.EllipticCurvePrivateKey), "we make no others"
        return cls(path, key, certificate)

    def server_context(self) -> ssl.SSLContext:
        """Return what a listener speaks: TLS 1.3, and only to holders of certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # each connection proves the key
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=_pem(self._certificate))
        context.load_cert_chain(self._path)
        return context

    def issue(
        self, path: Path, told: PilotFile, *, valid_s: float, wall_s: float
    ) -> PilotCertificate:
        """Write the file of a pilot; one issued before under this name is void then.

        Args:
            path: where the file is to be, in a folder that is there.
            told: what it says of us, and the pilot's name; our certificate is added.
            valid_s: the pilot's time limit and a margin, which includes its wait in the queue.
            wall_s: now, in seconds since 1970.
        Raises:
            BackendError: the file cannot be written.
        """
        name = told.name
        if not PILOT_NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no pilot: 1 to 64 letters, digits, '.', '_' or '-'")
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self._certificate.subject
        certificate = _signed(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
            key.public_key(),
            (issuer, self._key),
            (wall_s, valid_s),
            [
                (x509.BasicConstraints(ca=False, path_length=None), True),
                (_key_usage(signs_certificates=False), True),
                (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), True),
            ],
        )
        # No PEM: who looks for the pilot's own certificate must not find this one.
        der = self._certificate.public_bytes(serialization.Encoding.DER)
        said = {**told, "trust": b64encode(der).decode()}
        content = f"{json.dumps(said)}\n{_key_pem(key)}{_pem(certificate)}"
        try:
            _write_private(path, content, replaces=True)
        except OSError as error:
            raise BackendError(
                f"cannot write the file of pilot {name}: {error}", retryable=True
            ) from error
        return PilotCertificate(name, certificate.serial_number, path)


def read_certificate(path: Path) -> PilotCertificate:
    """Return the certificate in a pilot's file, after a restart of the daemon.

    Raises:
        BackendError: there is none.
    """
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        return PilotCertificate(*_subject_of(certificate), path)
    except (OSError, ValueError) as error:
        raise BackendError(f"{path} is no file of a pilot: {error}") from error


def _subject_of(certificate: x509.Certificate) -> tuple[str, int]:
    """Return the name and the serial in a certificate."""
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value), certificate.serial_number


def _made(wall_s: float) -> str:
    """Return a new key pair, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial makes the name another one than that of any other cluster.
    name = f"shunter {token_hex(8)}"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = _signed(
        subject,
        key.public_key(),
        (subject, key),
        (wall_s, AUTHORITY_VALID_S),
        [
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (_key_usage(signs_certificates=True), True),
            (x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), False),
        ],
    )
    return _key_pem(key) + _pem(certificate)


def _signed(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey],
    validity: tuple[float, float],
    extensions: list[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    wall_s, valid_s = validity
    issuer_name, issuer_key = issuer
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(wall_s - CLOCK_SKEW_S, UTC))
        .not_valid_after(datetime.fromtimestamp(wall_s + valid_s, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _write_private(path: Path, content: str, *, replaces: bool) -> None:
    """Write a file that is there whole or not at all, and that only we can read.

    Args:
        path: where.
        content: what.
        replaces: whether it takes the place of one that is there; else that one stays.
    """
    fresh = path.with_name(f"{path.name}.{token_hex(4)}")
    try:
        with create_private(str(fresh)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            fresh.replace(path)
        else:
            with suppress(FileExistsError):
                path.hardlink_to(fresh)
    finally:
        fresh.unlink(missing_ok=True)


def _check_private(path: Path) -> None:
    """Refuse a key that others could have read or put there."""
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path} is no plain file, expected the key pair of pilots")
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to user {found.st_uid}, expected {os.geteuid()}")
    if mode & PRIVATE:
        raise ConfigError(
            f"{path} has mode {mode:04o}, expected 0600: others may know its key by now, so "
            "remove it once all pilots have ended, and a new one is made"
        )


ACCEPT_PAUSE_S = 0.1
YOUNG_S = 1.0
SHOWN_CHARACTERS = 200
LOST = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class PilotHello(msgspec.Struct, frozen=True):
    """What a pilot says first: what it wants, and which process and Slurm job it is."""

    version: int
    do: Literal["serve", "drain"]
    instance: str
    job: str = ""
    node: str = ""
    why: str = ""
    left_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """Where to listen, and the bounds on who knows no key.

    Args:
        host: the address to listen on; None for all.
        port: 0 for any that is free.
        handshake_s: within which a connection is authenticated, or closed.
        silent_s: a pilot from which nothing came for so long may be replaced by another process.
        half_open_max: how many connections may be unauthenticated at once.
    """

    host: str | None = None
    port: int = 0
    handshake_s: float = 10.0
    silent_s: float = 20.0
    half_open_max: int = 256


class PilotObserver(Protocol):
    """Receives what becomes of pilots."""

    async def connected(self, stream: "PilotStream") -> None:
        """Serve a pilot; its connection is closed on return.

        For one pilot this is never under way twice.
        """

    def draining(self, name: str, why: str, left_s: float) -> None:
        """Handle a pilot that Slurm is about to end: it suspends its jobs by itself."""

    def refused(self, peer: str, cause: str) -> None:
        """Handle a connection that was not let in; for a log that bounds itself."""


class PilotStream:
    """The bytes of one pilot's RPC session, as of a program of the agent."""

    def __init__(self, tls: TLSStream, name: str, hello: PilotHello, rest: bytes) -> None:
        self.name, self.hello = name, hello
        self.nonce = secrets.token_hex(8)
        self.cause = ""
        self.heard_s = clock.monotonic_s()
        self.over = anyio.Event()
        self._tls, self._rest = tls, rest
        self._sending = anyio.Lock()

    async def read(self, most: int) -> bytes:
        """Return what has come; nothing once the connection has ended, however that was."""
        if self._rest:
            found, self._rest = self._rest[:most], self._rest[most:]
            return found
        try:
            found = await self._tls.receive(most)
        except LOST:
            self.cause = self.cause or f"the connection to pilot {self.name} was lost"
            return b""
        self.heard_s = clock.monotonic_s()
        return found

    async def write(self, content: bytes) -> None:
        """Send something.

        Raises:
            OSError: the connection has ended.
        """
        try:
            async with self._sending:  # TLS takes one at a time
                await self._tls.send(content)
        except LOST as error:
            raise BrokenPipeError("the pilot is gone") from error

    async def end_input(self) -> None:
        """End the session: its input ends with the connection."""
        await self.aclose()

    async def complaint(self) -> bytes:
        """Return why the connection has ended."""
        return self.cause.encode()

    async def status(self) -> int | None:
        """Return that nothing is known of an exit status."""
        return None

    async def aclose(self) -> None:
        """Close at once; no answer is waited for."""
        self.cause = self.cause or "the channel was closed"
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(self._tls)


class PilotListener:
    """Listens for the pilots that are wanted, and hands their streams over."""

    def __init__(
        self, authority: ClusterAuthority, observer: PilotObserver, settings: ListenerSettings
    ) -> None:
        self._context = authority.server_context()
        self._observer, self._settings = observer, settings
        self._wanted: dict[str, int] = {}
        self._live: dict[str, PilotStream] = {}
        self._half_open: dict[anyio.CancelScope, float] = {}

    def admit(self, certificate: PilotCertificate) -> None:
        """Let a pilot in from now on, with this certificate and none before it."""
        self._wanted[certificate.name] = certificate.serial

    async def revoke(self, name: str) -> None:
        """Let a pilot in no more, and close its connection."""
        self._wanted.pop(name, None)
        stream = self._live.get(name)
        if stream is not None:
            stream.cause = f"pilot {name} is not wanted any more"
            await stream.aclose()

    async def serve(self, *, task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled; `started` has the port.

        Raises:
            OSError: the port cannot be had.
        """
        settings = self._settings
        multi = await anyio.create_tcp_listener(
            local_host=settings.host, local_port=settings.port, reuse_port=False
        )
        async with multi, anyio.create_task_group() as tasks:
            for listener in multi.listeners:
                tasks.start_soon(self._accept_all, listener)
            task_status.started(multi.listeners[0].extra(SocketAttribute.local_port))

    async def _accept_all(self, listener: Listener[SocketStream]) -> None:
        assert isinstance(listener, SocketListener), "those of TCP are"
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    stream = await listener.accept()
                except OSError:  # no file is left, say: those that are open go on
                    await anyio.sleep(ACCEPT_PAUSE_S)
                    continue
                tasks.start_soon(self._receive, stream)

    async def _receive(self, raw: SocketStream) -> None:
        """Let a connection in, if it is a pilot's, and have it served to its end."""
        try:
            stream = await self._authenticated(raw)
            if stream is not None:
                await self._serve(stream)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(raw)

    async def _authenticated(self, raw: SocketStream) -> PilotStream | None:
        """Return the stream of a pilot that is to be served; None for all others."""
        peer = str(raw.extra(SocketAttribute.remote_address, ("somebody",))[0])
        limit_s = self._settings.handshake_s
        cause = f"it did not prove within {limit_s:g} s who it is"
        with anyio.move_on_after(limit_s) as scope:
            if not self._make_room():
                self._observer.refused(peer, f"{len(self._half_open)} others prove who they are")
                return None
            self._half_open[scope] = clock.monotonic_s()
            try:
                return await self._let_in(raw, peer)
            except (msgspec.MsgspecError, anyio.TypedAttributeLookupError, *LOST) as error:
                cause = f"it is no pilot of ours: {str(error)[:SHOWN_CHARACTERS] or repr(error)}"
            finally:
                if self._half_open.pop(scope, None) is None:
                    cause = "it took long to prove who it is, and others waited"
        self._observer.refused(peer, cause)
        return None

    def _make_room(self) -> bool:
        """Close the oldest half-open connection if need be; say if one may come.

        None that is young is closed: of pilots that all come back at once, each would close
        another, and none get in.
        """
        if len(self._half_open) < self._settings.half_open_max:
            return True
        oldest, since_s = next(iter(self._half_open.items()))
        if clock.monotonic_s() - since_s < YOUNG_S:
            return False
        del self._half_open[oldest]
        oldest.cancel()
        return True

    async def _let_in(self, raw: SocketStream, peer: str) -> PilotStream | None:
        _keep_alive(raw.extra(SocketAttribute.raw_socket))
        tls = await TLSStream.wrap(
            raw, server_side=True, ssl_context=self._context, standard_compatible=False
        )
        shown = tls.extra(TLSAttribute.peer_certificate_binary)
        assert shown, "without one the handshake fails"
        name, serial = _subject_of(x509.load_der_x509_certificate(shown))
        hello, rest = await _hello_of(tls)
        stream = PilotStream(tls, name, hello, rest)
        refusal = await self._refusal_once_free(stream, serial)
        if refusal is not None:
            self._observer.refused(peer, f"pilot {name}: {refusal['refused']}")
            await _say(stream, refusal)
            return None
        if hello.why:
            self._observer.draining(name, hello.why, hello.left_s)
        if hello.do == "serve":
            return stream
        await _say(stream, {})
        return None

    async def _refusal_once_free(
        self, stream: PilotStream, serial: int
    ) -> Mapping[str, object] | None:
        """Return why a pilot is not let in; what it replaces has ended before."""
        while True:
            refusal, before = self._refusal(stream, serial), self._live.get(stream.name)
            if refusal is not None or before is None or stream.hello.do != "serve":
                return refusal
            before.cause = f"pilot {stream.name} has connected again"
            await before.aclose()
            await before.over.wait()

    def _refusal(self, stream: PilotStream, serial: int) -> Mapping[str, object] | None:
        """Return why a pilot is not let in; None if it is."""
        hello, wanted = stream.hello, self._wanted.get(stream.name)
        if hello.version != PILOT_VERSION:
            said = f"it speaks version {hello.version}, expected {PILOT_VERSION}"
            return {"refused": said, "is_over": True}
        if wanted is None:
            return {"refused": "it is not wanted any more", "is_over": True}
        if wanted != serial:
            return {"refused": "its certificate has been replaced by another", "is_over": False}
        before = self._live.get(stream.name)
        if hello.do == "serve" and before is not None and before.hello.instance != hello.instance:
            silent_s = clock.monotonic_s() - before.heard_s
            if silent_s < self._settings.silent_s:
                said = f"another process of it is connected, heard of {silent_s:.0f} s ago"
                return {"refused": said, "is_over": False}
        return None

    async def _serve(self, stream: PilotStream) -> None:
        """Have a pilot served; nothing is awaited between its being let in and this."""
        assert stream.name not in self._live, "who is replaced has ended"
        self._live[stream.name] = stream
        try:
            with suppress(BrokenPipeError):
                await _say(stream, {"nonce": stream.nonce})
                await self._observer.connected(stream)
        finally:
            del self._live[stream.name]
            await stream.aclose()
            stream.over.set()


async def _hello_of(tls: TLSStream) -> tuple[PilotHello, bytes]:
    """Return the first line of a pilot, and what came behind it."""
    said = b""
    while b"\n" not in said:
        if len(said) >= PILOT_LINE_BYTES_MOST:
            raise msgspec.ValidationError(f"it says a line beyond {PILOT_LINE_BYTES_MOST} bytes")
        said += await tls.receive(PILOT_LINE_BYTES_MOST - len(said))
    line, _, rest = said.partition(b"\n")
    return msgspec.json.decode(line, type=PilotHello), rest


async def _say(stream: PilotStream, answer: Mapping[str, object]) -> None:
    await stream.write(json.dumps(answer).encode() + b"\n")


def _keep_alive(raw: socket.socket) -> None:
    """Have the kernel find out within half a minute that the other side is gone."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("IDLE", 15), ("INTVL", 5), ("CNT", 3)):
        raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_KEEP{option}"), value)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
