"""What the log may know of the variables a job was given: names, and keyed digests of values.

Equal digests under a name are equal values, so that one can see whether two jobs were given the
same. Nobody who has only the log can find a value by trying: that takes the key, which lies beside
the jobs' own files and is no part of the log.
"""

import secrets
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from shunter.backends.live.orders import put_privately
from shunter.errors import BackendError

KEY = "environment.key"
KEY_BYTES = 32
DIGEST_BYTES = 8


class Digests:
    """Makes digests under the key of a folder of attempts."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def below(cls, root: str) -> "Digests":
        """Return those of a folder, whose key (a file of mode 0600) is made if need be.

        Raises:
            BackendError: the file cannot be read or written, or holds no key.
        """
        path = Path(root) / KEY
        try:
            if not path.exists():
                put_privately(path, secrets.token_hex(KEY_BYTES))
            key = bytes.fromhex(path.read_text(encoding="ascii"))
        except OSError as error:
            raise BackendError(f"the key {path} cannot be used: {error.strerror}") from error
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise BackendError(
                f"the key {path} is damaged: expected {2 * KEY_BYTES} hexadecimal digits; move it "
                "away for a new one, with which digests of earlier jobs cannot be compared"
            )
        return cls(key)

    def of(self, environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return each name with the digest of its value, in order of names."""
        return tuple((name, self._digest(name, environment[name])) for name in sorted(environment))

    def _digest(self, name: str, value: str) -> str:
        text = f"{name}\0{value}".encode("utf-8", "surrogateescape")
        return blake2b(text, digest_size=DIGEST_BYTES, key=self._key).hexdigest()
