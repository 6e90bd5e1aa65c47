from collections import Counter

import anyio

from shunter.backends.live import (
    SshAccess,
    SshHost,
    SshSettings,
    SshTransport,
    Where,
    filled,
    orders_for,
)
from shunter.core import Launch
from shunter.events import Allocation, JobId, JobSpec, NodeName, Share

HOST = NodeName("gpu1")


def test_secret_stands_in_the_command_again_on_every_host() -> None:
    host = SshHost(HOST, "127.0.0.1", ("0",))
    settings = SshSettings((host,), SshAccess("known_hosts"), "c", 1, "h", "root")
    where = Where(SshTransport(host, settings, anyio.Semaphore(1)), "r", Counter())
    spec = JobSpec(gpus=1, command=("run", "--token={secret:TOKEN}"))
    effect = Launch(JobId("j1"), 1, Allocation((Share(HOST, 1),)), spec)
    given = {"TOKEN": "abcd"}
    found = orders_for(effect, settings, settings.owner, {HOST: where}, given, 29500)
    [rank] = found[HOST].ranks
    assert rank.argv == ("run", "--token=abcd")
    assert rank.env["TOKEN"] == "abcd"


def test_secret_stands_in_the_command_again() -> None:
    command = ["curl", "-H", "Authorization: {secret:TOKEN}", "{secret:TOKEN}{secret:KEY}"]
    given = {"TOKEN": "abcd", "KEY": "{secret:TOKEN}"}
    assert filled(command, given) == ["curl", "-H", "Authorization: abcd", "abcd{secret:TOKEN}"]


def test_what_is_no_secret_of_the_job_stays_as_it_is() -> None:
    assert filled(["{secret:NONE}", "{x}", "secret:TOKEN"], {"TOKEN": "abcd"}) == [
        "{secret:NONE}",
        "{x}",
        "secret:TOKEN",
    ]
