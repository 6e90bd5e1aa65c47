"""Who calls: the peer of the socket as the kernel knows it, or the user of a token.

Nothing a request says of its sender counts.
"""

import os
import pwd
from collections.abc import Collection, Mapping

from starlette.exceptions import HTTPException
from starlette.types import Scope

from shunter.api.access.peers import PEER, Peer
from shunter.api.access.tokens import Tokens
from shunter.daemon.requests import Caller
from shunter.errors import RefusedError


def user_name(uid: int) -> str:
    """Return the name of a user, the number where this machine has no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Callers:
    """Turns connections and tokens into callers."""

    def __init__(
        self,
        admins: Collection[str],
        tokens: Tokens | None,
        uid: int | None = None,
        proposers: Collection[str] = (),
    ):
        self._admins = frozenset(admins)
        self._proposers = frozenset(proposers)
        self._tokens = tokens
        self._own_uid = os.geteuid() if uid is None else uid

    @property
    def serves(self) -> str:
        """Whose jobs are started here."""
        return "everybody" if self._own_uid == 0 else user_name(self._own_uid)

    def caller(self, scope: Scope, headers: Mapping[str, str]) -> Caller:
        """Return who calls.

        Raises:
            HTTPException: 401, where a token is missing or nobody's.
            RefusedError: a daemon of somebody else, who is not root, serves him only.
        """
        peer = scope.get("extensions", {}).get(PEER)
        if isinstance(peer, Peer):
            return self._of_uid(peer.uid)
        return self._of_token(headers.get("authorization", ""))

    def _of_uid(self, uid: int) -> Caller:
        own = self._own_uid
        if own not in (0, uid) and uid != 0:
            raise RefusedError(
                f"this daemon is {user_name(own)}'s (uid {own}) and serves nobody else, as it can "
                f"start no jobs of uid {uid}; one run as root serves everybody"
            )
        name = user_name(uid)
        return self._with_roles(name, uid, is_admin=uid in (0, own))

    def _of_token(self, authorization: str) -> Caller:
        scheme, _, token = authorization.partition(" ")
        if not token or scheme.lower() != "bearer":
            raise HTTPException(
                401, "over TCP, expected the header 'Authorization: Bearer TOKEN' (SHUNTER_TOKEN)"
            )
        user = None if self._tokens is None else self._tokens.user_of(token.strip())
        if user is None:
            raise HTTPException(401, "nobody here has this token; see the daemon's token_file")
        try:
            uid: int | None = pwd.getpwnam(user).pw_uid
        except KeyError:
            uid = None
        own = user_name(self._own_uid)
        return self._with_roles(user, uid, is_admin=user in ("root", own))

    def _with_roles(self, user: str, uid: int | None, *, is_admin: bool) -> Caller:
        """Return a caller with the roles that the config gives."""
        return Caller(user, uid, is_admin or user in self._admins, user in self._proposers)
