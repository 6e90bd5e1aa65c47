"""Output of a job that prints nothing for long, or has not started."""

import pytest

from shunter.client import Client
from shunter.errors import UnavailableError
from tests.live.api.serving import Served

pytestmark = pytest.mark.live


@pytest.mark.parametrize("address", ["unix", "tcp"])
def test_output_is_followed_over_a_silence(
    shared: Served, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Method: what waits for an answer gives up after 0.3 s here, instead of 90 s."""
    monkeypatch.setattr("shunter.client.transport.WAIT_READ_S", 0.3)
    where = shared.url if address == "unix" else shared.tcp
    with Client(where, token=shared.token) as client:
        job = client.submit(["sh", "-c", "echo first; sleep 2; echo last"])
        assert b"".join(client.logs(job.id, follow=True)) == b"first\nlast\n"


def test_daemon_that_ends_while_output_is_followed_prints_no_traceback(served: Served) -> None:
    with served.client() as client:
        job = client.submit(["sh", "-c", "echo first; sleep 60"])
        output = client.logs(job.id, follow=True)
        assert next(iter(output)) == b"first\n"
        assert served.end() == 0
        with pytest.raises(UnavailableError):
            list(output)
    assert "Traceback" not in served.said()


def test_job_that_has_not_started_says_so_instead_of_nothing(served: Served) -> None:
    with served.client() as client:
        client.submit(["sleep", "60"], gpus=4)
        late = client.submit(["echo", "late"], gpus=4)
        waits = served.run("logs", late.id)
        assert (waits.returncode, waits.stdout) == (0, "")
        assert waits.stderr == (
            f"{late.id} has not started: `shunter why {late.id}` says why; "
            f"`shunter logs -f {late.id}` waits for its output\n"
        )
        client.cancel(late.id)
        assert (
            served.run("logs", "-f", late.id).stderr == f"{late.id} was never started: cancelled\n"
        )
