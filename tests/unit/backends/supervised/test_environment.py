"""What a job finds in its environment and in its command: variables, secrets, its index."""

import json
from collections import Counter
from pathlib import Path

import anyio
import pytest

from shunter.backends.live import (
    Limits,
    SshAccess,
    SshHost,
    SshSettings,
    SshTransport,
    Where,
    contract_of,
    environment_path,
    filled,
    given_to,
    orders_for,
    store_all,
)
from shunter.core import Launch
from shunter.errors import BackendError
from shunter.events import Allocation, JobId, JobSpec, NodeName, Share

J0 = JobId("j0")


def wrote(root: Path, text: str) -> str:
    path = environment_path(str(root), J0)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return str(root)


def test_environment_of_a_job_is_what_its_file_says(tmp_path: Path) -> None:
    root = wrote(tmp_path, json.dumps({"TOKEN": "s3cret", "LANG": "C"}))
    assert given_to(root, J0) == {"TOKEN": "s3cret", "LANG": "C"}
    assert given_to(root, JobId("j1")) == {}


@pytest.mark.parametrize("text", ['{"TOKEN": "s3cret"', '["s3cret"]', '{"s3cret": 3}'])
def test_bad_environment_names_its_file_and_never_what_it_says(tmp_path: Path, text: str) -> None:
    root = wrote(tmp_path, text)
    with pytest.raises(BackendError, match=r"job j0 in .*/jobs/j0/environment\.json") as caught:
        given_to(root, J0)
    assert "s3cret" not in str(caught.value)
    assert not caught.value.retryable


def test_stored_environments_replace_earlier_ones_and_only_we_read_them(tmp_path: Path) -> None:
    root = str(tmp_path)
    store_all(root, {J0: {"A": "1"}, JobId("j1"): {"A": "2"}, JobId("j2"): {}})
    assert [given_to(root, JobId(name)) for name in ("j0", "j1", "j2")] == [
        {"A": "1"},
        {"A": "2"},
        {},
    ]
    assert environment_path(root, J0).stat().st_mode & 0o777 == 0o600
    store_all(root, {J0: {}, JobId("j1"): {"B": "3"}})
    assert [given_to(root, JobId(name)) for name in ("j0", "j1")] == [{}, {"B": "3"}]
    assert not environment_path(root, J0).exists()


@pytest.mark.parametrize("index", [None, 0, 17])
def test_task_of_an_array_is_promised_its_index(index: int | None) -> None:
    effect = Launch(J0, 1, Allocation((Share(NodeName("n0"), 1),)), JobSpec(array_index=index))
    promised = contract_of(effect, 0, ["0"], Limits(), ("127.0.0.1", 23_450), "/c")
    assert promised.get("SHUNTER_ARRAY_INDEX") == (None if index is None else str(index))


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("Authorization: {secret:TOKEN}", "Authorization: abcd"),
        ("{secret:TOKEN}{secret:KEY}", "abcd{secret:TOKEN}"),
        *((other, other) for other in ("curl", "{secret:NONE}", "{x}", "secret:TOKEN")),
    ],
)
def test_only_a_secret_of_the_job_stands_in_its_command_again(words: str, told: str) -> None:
    given = {"TOKEN": "abcd", "KEY": "{secret:TOKEN}"}
    assert filled(["-H", words], given) == ["-H", told]
