"""`shunter down` where the daemon is gone before it is asked."""

from typing import NoReturn

import pytest

from shunter.addresses import UnixAddress
from shunter.cli import up
from shunter.errors import UnavailableError

ADDRESS = UnixAddress("/run/a.sock")


@pytest.fixture(autouse=True)
def _ended_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another command end the daemon once it has been found."""

    def nobody(url: str | None) -> NoReturn:
        raise UnavailableError(f"no daemon answers on {url}")

    found = iter([(1, ADDRESS), None])
    monkeypatch.setattr(up, "settled_daemon_at", lambda _addresses, _busy: next(found))
    monkeypatch.setattr(up, "connect", nobody)


def test_daemon_that_another_ends_meanwhile_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    up.down(end_jobs=False, url=str(ADDRESS))
    assert (
        capsys.readouterr().out == "no daemon is running on this machine: it was ended meanwhile\n"
    )


def test_jobs_that_were_to_end_are_not_said_to_have() -> None:
    with pytest.raises(UnavailableError):
        up.down(end_jobs=True, url=str(ADDRESS))
