from collections import Counter

from shunter.backends.ssh.orders import orders_for
from shunter.backends.ssh.settings import SshAccess, SshHost, SshSettings
from shunter.core.effects import Launch
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import JobSpec

HOST = NodeName("gpu1")


def test_secret_stands_in_the_command_again_on_every_host() -> None:
    settings = SshSettings(
        hosts=(SshHost(HOST, "127.0.0.1", ("0",)),),
        access=SshAccess("known_hosts"),
        cluster_id="c",
        term=1,
        holder="h",
        root="root",
    )
    spec = JobSpec(gpus=1, command=("run", "--token={secret:TOKEN}"))
    effect = Launch(JobId("j1"), 1, Allocation((Share(HOST, 1),)), spec)
    found = orders_for(effect, settings, {HOST: "r"}, {HOST: Counter()}, {"TOKEN": "abcd"}, 29500)
    [rank] = found[HOST]["ranks"]
    assert rank["argv"] == ["run", "--token=abcd"]
    assert rank["env"]["TOKEN"] == "abcd"
