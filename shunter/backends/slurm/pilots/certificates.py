"""The keys by which the daemon and its pilots know each other: one authority a cluster.

The daemon has a key pair below its own root (`pilots.pem`, mode 0600). It signs a certificate for
each pilot, whose private key travels in the pilot's file: one file of mode 0600 on the shared file
system, and nowhere else, neither argv nor environment nor a script that `scontrol` shows. The file
also holds the daemon's certificate, so that the pilot knows the daemon. It is written anew while
its pilot waits in Slurm's queue for long, and removed once the pilot has ended.

    {"name": …, "addresses": …, "port": …, "trust": the daemon's certificate, …}     one line
    -----BEGIN PRIVATE KEY-----   the pilot's
    -----BEGIN CERTIFICATE-----   the pilot's

The daemon's certificate stands for a daemon and the others for pilots only (extended key usage), so
that no pilot can pose as the daemon to another. P-256 rather than Ed25519: machines in FIPS mode
refuse the latter. A job of the same account could read the file all the same, as it could cancel
the pilot: the border is the account, as everywhere in Slurm.
"""

import json
import os
import re
import ssl
import stat
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shunter.backends.node.pilots.pilot_connection import PILOT_VERSION, SERVER_NAME
from shunter.backends.node.records import create_private
from shunter.errors import BackendError, ConfigError

AUTHORITY_FILE = "pilots.pem"
AUTHORITY_VALID_S = 20 * 365 * 86_400
CLOCK_SKEW_S = 600.0  # more than munge, and with it Slurm, lets clocks differ
PRIVATE = 0o077
PILOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class DialBack:
    """What a pilot is told of its daemon.

    Args:
        addresses: names or addresses of the daemon's machine, tried in turn.
        port: where it listens.
        cluster: the id of the cluster, below which the agent keeps attempts.
        silent_s: a connection on which nothing came for so long is taken for lost.
        patience_s: a pilot in which nothing runs ends when no daemon served it for so long.
        drain_s: how long jobs may take to save once Slurm has sent SIGTERM; less than KillWait.
        notice_s: the same for SIGUSR1; less than the lead in the pilot's --signal=B:USR1@LEAD.
    """

    addresses: tuple[str, ...]
    port: int
    cluster: str
    silent_s: float = 30.0
    patience_s: float = 900.0
    drain_s: float = 25.0
    notice_s: float = 100.0


@dataclass(frozen=True, slots=True)
class PilotCertificate:
    """The certificate of one pilot, without its key; the newest serial counts."""

    name: str
    serial: int
    expires_s: float
    path: Path

    def remove_file(self) -> None:
        """Remove the file with its key, once the pilot has ended or is not to start.

        Raises:
            OSError: it is still there.
        """
        self.path.unlink(missing_ok=True)


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
        context.num_tickets = 0  # each connection proves the key anew
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=_pem(self._certificate))
        context.load_cert_chain(self._path)
        return context

    def issue(
        self, name: str, path: Path, dial_back: DialBack, *, valid_s: float, wall_s: float
    ) -> PilotCertificate:
        """Write the file of a pilot; one issued before under this name is void then.

        Args:
            name: of the pilot.
            path: where the file is to be, in a folder that is there.
            dial_back: what the pilot is told of us.
            valid_s: the pilot's time limit and a margin, which includes its wait in the queue.
            wall_s: now, in seconds since 1970.
        Raises:
            BackendError: the file cannot be written.
        """
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
        said = {
            "version": PILOT_VERSION,
            "name": name,
            "addresses": list(dial_back.addresses),
            "port": dial_back.port,
            "cluster": dial_back.cluster,
            "silent_s": dial_back.silent_s,
            "patience_s": dial_back.patience_s,
            "drain_s": dial_back.drain_s,
            "notice_s": dial_back.notice_s,
            # No PEM: whoever looks for the pilot's own certificate must not find this one.
            "trust": b64encode(self._certificate.public_bytes(serialization.Encoding.DER)).decode(),
        }
        content = f"{json.dumps(said)}\n{_key_pem(key)}{_pem(certificate)}"
        try:
            _write_private(path, content, replaces=True)
        except OSError as error:
            raise BackendError(
                f"cannot write the file of pilot {name}: {error}", retryable=True
            ) from error
        return _described(certificate, path)


def read_certificate(path: Path) -> PilotCertificate:
    """Return the certificate in a pilot's file, after a restart of the daemon.

    Raises:
        BackendError: there is none.
    """
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        return _described(certificate, path)
    except (OSError, ValueError) as error:
        raise BackendError(f"{path} is no file of a pilot: {error}") from error


def subject_of(shown: bytes | None) -> tuple[str, int]:
    """Return the name and the serial in a certificate that TLS has verified."""
    assert shown, "who shows none fails the handshake"
    certificate = x509.load_der_x509_certificate(shown)
    return _name_in(certificate), certificate.serial_number


def _described(certificate: x509.Certificate, path: Path) -> PilotCertificate:
    expires_s = certificate.not_valid_after_utc.timestamp()
    return PilotCertificate(_name_in(certificate), certificate.serial_number, expires_s, path)


def _name_in(certificate: x509.Certificate) -> str:
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


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
    """Refuse a key that others could have read or put there.

    Raises:
        ConfigError: they could.
    """
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
