"""The sections of a live cluster: its backend, where it listens, and how jobs take turns."""

import json
from pathlib import Path
from typing import Any

import pytest

from shunter.addresses import TcpAddress, UnixAddress
from shunter.backends.live import Limits, TurnSettings
from shunter.backends.node import SWITCH_LOOK_US
from shunter.config import (
    PROBE_LIVE_LEAST_US,
    BackendSection,
    LoadedConfig,
    SlurmSection,
    load_config,
    make_config,
    policy_runtime,
    record_of,
)
from shunter.daemon import as_wanted, slicing_of
from shunter.errors import ConfigError
from shunter.policies.gandiva import SAMPLES_IN_PROBE
from shunter.train import channel

NODES = [{"name": "n0", "gpus": 4}]
LOCAL = {"kind": "local", "local": {"root": "/srv/shunter"}}


def live(backend: Any = LOCAL, url: str = "log.db", **sections: Any) -> LoadedConfig:
    tree = {"cluster": {"nodes": NODES}, "backend": backend, "log": {"url": url}} | sections
    return make_config(tree)


def test_live_cluster_needs_no_workload() -> None:
    assert live().config.backend.is_live


def test_live_cluster_may_have_a_table_of_throughputs() -> None:
    nodes = [{"name": "n0", "gpus": 4, "type": "v100"}]
    loaded = live(cluster={"nodes": nodes}, workload={"throughputs": "builtin:gavel"})
    assert loaded.throughputs is not None


def test_record_names_the_kind_and_no_folder() -> None:
    record = record_of(live(), instant=False, workload={})
    assert json.loads(record)["backend"] == {
        "kind": "local",
        "checkpoints_stay": False,
        "retries_elsewhere": True,
    }
    assert json.loads(record)["reactor"] == 3
    assert "/srv/shunter" not in record


def test_simulated_is_the_default() -> None:
    assert BackendSection().kind == "simulated"


LIVE: dict[str, Any] = {
    "cluster": {"nodes": [{"name": "n1", "gpus": 2, "type": "v100"}]},
    "backend": {"kind": "local", "local": {"root": "attempts"}},
    "log": {"url": "live.sqlite"},
}


def made(**server: Any) -> Any:
    return make_config({**LIVE, "server": server}).config.server


def test_a_socket_of_this_user_is_the_default() -> None:
    server = make_config(LIVE).config.server
    assert isinstance(server.addresses[0], UnixAddress)
    assert server.socket_mode == "0600"


def test_one_address_or_a_list_may_be_named() -> None:
    assert made(listen="unix:/run/a.sock").listen == ("unix:/run/a.sock",)
    listen = ["unix:/run/a.sock", "tcp:127.0.0.1:8711"]
    server = made(listen=listen, token_file="tokens")
    assert server.addresses == (UnixAddress("/run/a.sock"), TcpAddress("127.0.0.1", 8711))


def test_a_public_address_with_token_and_tls_is_allowed() -> None:
    tls = {"certificate": "c.pem", "key": "k.pem"}
    server = made(listen="tcp:0.0.0.0:8711", token_file="t", tls=tls)
    assert server.addresses == (TcpAddress("0.0.0.0", 8711),)


def test_files_of_the_section_lie_beside_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        '[[cluster.nodes]]\nname = "n1"\ngpus = 1\ntype = "v100"\n'
        '[backend]\nkind = "local"\n[backend.local]\nroot = "attempts"\n'
        '[server]\nlisten = "tcp:127.0.0.1:0"\ntoken_file = "tokens"\n'
        '[server.tls]\ncertificate = "c.pem"\nkey = "k.pem"\n[log]\nurl = "live.sqlite"\n',
        encoding="utf-8",
    )
    server = load_config(tmp_path / "site.toml", environ={}).config.server
    assert server.tls is not None
    files = (server.token_file, server.tls.certificate, server.tls.key)
    assert files == tuple(str(tmp_path / name) for name in ("tokens", "c.pem", "k.pem"))


ASKED = {"root": "/shared", "partition": "gpu"}


def test_jobs_are_not_suspended_in_slurm_unless_it_is_said() -> None:
    assert SlurmSection.model_validate({**ASKED, "mode": "per-job"}).stops_by == "signals"


def test_attempts_that_are_jobs_of_slurm_may_be_suspended_there() -> None:
    told = {**ASKED, "mode": "per-job", "stops_by": "scontrol"}
    assert SlurmSection.model_validate(told).stops_by == "scontrol"


ROOT = Path(__file__).parents[4]


def loaded(slicing: dict[str, Any] | None, backend: dict[str, Any] | None = None) -> Any:
    policy = {"name": "gandiva", "trigger": "event"}
    return make_config(
        {
            "cluster": {"nodes": [{"name": "n", "gpus": 2}]},
            "policy": {**policy, "slicing": slicing} if slicing is not None else {},
            "backend": backend or {"kind": "local", "local": {"root": "r"}},
            "log": {"url": "log.db"},
        }
    )


def test_supervisors_are_told_what_the_config_says() -> None:
    assert slicing_of(loaded(None)) is None
    assert slicing_of(loaded({})) == TurnSettings(quantum_us=60_000_000)
    told = slicing_of(loaded({"quantum": "2s", "wait_most": "9s", "boundary_most": "0s"}))
    assert told == TurnSettings(quantum_us=2_000_000, wait_most_us=9_000_000, boundary_most_us=0)


def test_example_is_one_that_a_daemon_takes() -> None:
    example = load_config(ROOT / "examples" / "live" / "turns.toml")
    told = slicing_of(example)
    assert told is not None
    assert (told.quantum_us, told.boundary_most_us) == (60_000_000, 10_000_000)


def test_a_quantum_is_as_short_as_who_rotates_can_keep() -> None:
    assert slicing_of(loaded({"quantum": 0.05})) == TurnSettings(quantum_us=SWITCH_LOOK_US)


def trying(
    slicing: dict[str, Any] | None = None, world: dict[str, Any] | None = None, **params: Any
) -> Any:
    """Return the config of a cluster, live unless said otherwise, whose policy tries something."""
    return make_config(
        {
            "cluster": {"nodes": [{"name": "n", "gpus": 2}]},
            "policy": {
                "name": "gandiva",
                "trigger": "event",
                "slicing": slicing or {},
                "params": {"gandiva": params},
            },
            "log": {"url": "log.db"},
            **(world or {"backend": {"kind": "local", "local": {"root": "r"}}}),
        }
    )


@pytest.mark.parametrize(
    ("probe_s", "sample_s", "told_every_s"), [(60, 10.0, 10.0), (30, 5.0, 5.0), (1, 0.5, 0.5)]
)
def test_jobs_are_measured_as_often_as_trials_need_it(
    probe_s: int, sample_s: float, told_every_s: float
) -> None:
    found = as_wanted(Limits(), trying(migration={"probe": probe_s}))
    assert (found.sample_s, found.told_every_s) == (sample_s, told_every_s)
    assert as_wanted(Limits(), loaded(None)).told_every_s == 60.0


def test_trials_without_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"backend\.local\.sample above 0"):
        as_wanted(Limits(sample_s=0.0), trying(migration={}))


def test_a_live_probe_lasts_as_many_samples_as_a_trial_needs() -> None:
    assert SAMPLES_IN_PROBE * channel.PROGRESS_EVERY_S * 1e6 == PROBE_LIVE_LEAST_US


def test_a_simulated_probe_is_as_short_as_its_samples_allow() -> None:
    simulated = {
        "backend": {"kind": "simulated"},
        "simulation": {"samples": {"every": 0.9}},
        "workload": {"generate": {"jobs": 4, "load": 1.0, "gpus_max": 1}},
    }
    config = trying({"quantum": 1}, simulated, packing={"probe": 5.9})
    policy_runtime(config, instant=True)


@pytest.mark.parametrize(("quantum_s", "probe_s"), [(60, 60), (1, 6)])
@pytest.mark.parametrize("tried", ["packing", "migration"])
def test_a_live_probe_may_be_as_short_as_a_quantum_and_its_samples_allow(
    tried: str, quantum_s: int, probe_s: int
) -> None:
    config = trying({"quantum": quantum_s}, **{tried: {"probe": probe_s}})
    policy_runtime(config, instant=False)
