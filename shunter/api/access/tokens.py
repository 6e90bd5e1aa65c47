"""The file of tokens: one line `TOKEN USER` for each user who may call over TCP.

    # made by shunter serve --make-token
    3mCq…43 characters…  ana

It is read once, at the start. Others must not be able to read it, so its mode is checked.
"""

import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from shunter.errors import ConfigError, NotFoundError

TOKEN_BYTES = 32
TOKEN_CHARACTERS_LEAST = 32
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class Tokens:
    """Whose token is which; looking one up takes equally long for all wrong ones."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = [(token.encode(), user) for token, user in users.items()]

    @property
    def users(self) -> tuple[str, ...]:
        """Everybody who has one."""
        return tuple(dict.fromkeys(user for _, user in self._users))

    def user_of(self, token: str) -> str | None:
        """Return whose token it is; None: nobody's."""
        given, found = token.encode("utf-8", "replace"), None
        for known, user in self._users:
            if hmac.compare_digest(known, given):
                found = user
        return found


def read_tokens(path: str) -> Tokens:
    """Read a file of tokens.

    Raises:
        NotFoundError: there is none.
        ConfigError: others can read it, or a line is wrong; no message holds a token.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            lines = file.read().split("\n")
    except FileNotFoundError as error:
        raise NotFoundError(
            f"there is no token file {path}; `shunter serve --make-token` makes one"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the tokens cannot be read: {error}") from error
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{path}: others may read the tokens (mode {stat.S_IMODE(found.st_mode):04o}): "
            f"chmod 600 {path}, and make new ones"
        )
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{path}: it belongs to uid {found.st_uid}: expected the daemon's own")
    users: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or not _USER.fullmatch(words[1]):
            raise ConfigError(f"{path}:{number}: expected TOKEN USER")
        if len(words[0]) < TOKEN_CHARACTERS_LEAST:
            raise ConfigError(
                f"{path}:{number}: the token of {words[1]} is short: "
                f"expected {TOKEN_CHARACTERS_LEAST} characters or more"
            )
        if words[0] in users:
            raise ConfigError(f"{path}:{number}: the token of {words[1]} stands there twice")
        users[words[0]] = words[1]
    if not users:
        raise ConfigError(f"{path}: it holds no token; expected a line TOKEN USER")
    return Tokens(users)


def make_tokens(path: str, user: str) -> bool:
    """Make a file with a token for a user, if there is none; say whether it was made.

    Raises:
        ConfigError: it cannot be written.
    """
    text = f"# made by shunter serve --make-token\n{secrets.token_urlsafe(TOKEN_BYTES)} {user}\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"{path}: the token cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return True
