import os
import pwd
import stat
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException

from shunter.api import PEER, Callers, Peer, Tokens, make_tokens, read_tokens, user_name
from shunter.daemon import Caller
from shunter.errors import ConfigError, NotFoundError, RefusedError

LONG = "t" * 32
NOBODY_UID = 65_534
MINE = os.geteuid()


def peer(uid: int) -> dict[str, object]:
    return {"extensions": {PEER: Peer(1, uid, uid)}}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def written(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "tokens"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


def test_kernel_says_who_calls_over_a_socket_whatever_the_request_says() -> None:
    callers = Callers((), Tokens({LONG: "ana"}), uid=0)
    found = callers.caller(peer(NOBODY_UID), bearer(LONG))
    assert found == Caller(user_name(NOBODY_UID), NOBODY_UID, is_admin=False)


def test_root_the_daemons_user_and_named_ones_are_admins() -> None:
    nobody = user_name(NOBODY_UID)
    assert Callers((), None, uid=0).caller(peer(0), {}).is_admin
    assert Callers((), None, uid=NOBODY_UID).caller(peer(NOBODY_UID), {}).is_admin
    assert Callers((nobody,), None, uid=0).caller(peer(NOBODY_UID), {}).is_admin


def test_daemon_of_one_user_serves_nobody_else() -> None:
    callers = Callers((), None, uid=NOBODY_UID)
    with pytest.raises(RefusedError):
        callers.caller(peer(NOBODY_UID - 1), {})
    assert callers.serves == user_name(NOBODY_UID)


def test_token_says_who_calls_over_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the uid is that of the account of this name here, if there is one."""
    account = pwd.struct_passwd(("bo", "x", NOBODY_UID, NOBODY_UID, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", {"bo": account}.__getitem__)
    callers = Callers(("ana",), Tokens({LONG: "ana", "u" * 32: "bo"}), uid=0)
    assert callers.caller({}, bearer(LONG)) == Caller("ana", None, is_admin=True)
    assert callers.caller({}, bearer("u" * 32)) == Caller("bo", NOBODY_UID, is_admin=False)


@pytest.mark.parametrize("header", ["", "Bearer", f"Basic {LONG}", LONG, "Bearer x", "Bearer é"])
def test_no_token_is_nobody(header: str) -> None:
    callers = Callers((), Tokens({LONG: "ana"}), uid=0)
    with pytest.raises(HTTPException) as caught:
        callers.caller({}, {"authorization": header})
    assert caught.value.status_code == 401


def test_token_is_nobodys_where_there_are_none() -> None:
    with pytest.raises(HTTPException):
        Callers((), None, uid=0).caller({}, bearer(LONG))


def test_made_token_is_for_its_owner_and_made_once(tmp_path: Path) -> None:
    path = str(tmp_path / "tokens")
    assert make_tokens(path, "ana")
    before = Path(path).read_bytes()
    assert not make_tokens(path, "bo")
    assert Path(path).read_bytes() == before
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert read_tokens(path).users == ("ana",)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"{LONG}\n", "expected TOKEN USER"),
        (f"{LONG} ana bo\n", "expected TOKEN USER"),
        (f"{LONG} ../ana\n", "expected TOKEN USER"),
        ("short ana\n", "32 characters"),
        (f"{LONG} ana\n{LONG} bo\n", "twice"),
        ("# nothing\n", "no token"),
    ],
)
def test_wrong_line_is_named_without_its_token(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tokens(written(tmp_path, text))
    assert named in str(caught.value)
    assert LONG not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_tokens_that_others_can_read_are_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tokens(written(tmp_path, f"{LONG} ana\n", mode))
    assert "chmod 600" in str(caught.value)


def test_missing_tokens_say_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        read_tokens(str(tmp_path / "none"))
    assert "--make-token" in str(caught.value)


def test_proposers_are_those_of_the_config() -> None:
    tokens = Tokens({LONG: "ana", "u" * 32: "bo"})
    callers = Callers((), tokens, uid=0, proposers=("ana",))
    assert callers.caller({}, bearer(LONG)).is_proposer
    assert not callers.caller({}, bearer(LONG)).is_admin
    assert not callers.caller({}, bearer("u" * 32)).is_proposer
    assert not callers.caller(peer(0), {}).is_proposer, "admins need no such role"
