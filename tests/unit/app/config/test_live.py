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
    SlurmSection,
    load_config,
    policy_runtime,
    record_of,
)
from shunter.daemon import as_wanted, slicing_of
from shunter.errors import ConfigError
from shunter.policies.gandiva import SAMPLES_IN_PROBE
from shunter.train import channel
from tests.unit.app.config.texts import LIVE, SERVER, TURNS, loaded

ROOT = Path(__file__).parents[4]
SLURM = {"root": "/shared", "partition": "gpu", "mode": "per-job"}
TLS = 'server.tls={certificate="c.pem", key="k.pem"}'


def test_live_cluster_needs_no_workload_and_may_have_a_table_of_throughputs(
    tmp_path: Path,
) -> None:
    config = loaded(tmp_path, LIVE, "workload.throughputs=builtin:gavel")
    assert config.throughputs is not None
    assert loaded(tmp_path, LIVE).config.backend.is_live
    assert BackendSection().kind == "simulated"


def test_record_names_the_kind_and_no_folder(tmp_path: Path) -> None:
    record = record_of(loaded(tmp_path, LIVE), instant=False, workload={})
    backend = {"kind": "local", "checkpoints_stay": False, "retries_elsewhere": True}
    assert json.loads(record)["backend"] == backend
    assert json.loads(record)["reactor"] == 3
    assert str(tmp_path) not in record


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ("server.listen='unix:/run/a.sock'", (UnixAddress("/run/a.sock"),)),
        (
            "server={listen=['unix:/run/a.sock', 'tcp:127.0.0.1:8711'], token_file='t'}",
            (UnixAddress("/run/a.sock"), TcpAddress("127.0.0.1", 8711)),
        ),
        (
            f"server={{listen='tcp:0.0.0.0:8711', token_file='t'}}; {TLS}",
            (TcpAddress("0.0.0.0", 8711),),
        ),
    ],
    ids=["one address", "a list", "a public one with token and TLS"],
)
def test_daemon_listens_where_it_is_told(
    tmp_path: Path, settings: str, addresses: tuple[object, ...]
) -> None:
    """On a socket of this user, if nothing is said."""
    assert loaded(tmp_path, LIVE, settings).config.server.addresses == addresses
    server = loaded(tmp_path, LIVE).config.server
    assert isinstance(server.addresses[0], UnixAddress)
    assert server.socket_mode == "0600"


def test_files_of_the_section_lie_beside_the_config_file(tmp_path: Path) -> None:
    text = (
        f'{LIVE}[server]\nlisten = "tcp:127.0.0.1:0"\ntoken_file = "tokens"\n'
        '[server.tls]\ncertificate = "c.pem"\nkey = "k.pem"\n'
    )
    server = loaded(tmp_path, text).config.server
    assert server.tls is not None
    files = (server.token_file, server.tls.certificate, server.tls.key)
    assert files == tuple(str(tmp_path / name) for name in ("tokens", "c.pem", "k.pem"))


def test_jobs_are_not_suspended_in_slurm_unless_it_is_said() -> None:
    assert SlurmSection.model_validate(SLURM).stops_by == "signals"
    told = {**SLURM, "stops_by": "scontrol"}
    assert SlurmSection.model_validate(told).stops_by == "scontrol"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("policy={}", None),
        ("", TurnSettings(quantum_us=60_000_000)),
        ("policy.slicing.quantum=0.05", TurnSettings(quantum_us=SWITCH_LOOK_US)),
        (
            "policy.slicing={quantum='2s', wait_most='9s', boundary_most='0s'}",
            TurnSettings(quantum_us=2_000_000, wait_most_us=9_000_000, boundary_most_us=0),
        ),
    ],
)
def test_supervisors_are_told_what_the_config_says(
    tmp_path: Path, settings: str, told: TurnSettings | None
) -> None:
    assert slicing_of(loaded(tmp_path, TURNS, settings)) == told


def test_example_is_one_that_a_daemon_takes() -> None:
    told = slicing_of(load_config(ROOT / "examples" / "live" / "turns.toml"))
    assert told is not None
    assert (told.quantum_us, told.boundary_most_us) == (60_000_000, 10_000_000)


def trying(folder: Path, what: str, config: str = TURNS, quantum_s: int = 60) -> Any:
    """Return the config of a cluster whose policy tries something."""
    settings = f"policy.slicing.quantum={quantum_s}; policy.params.gandiva={{{what}}}"
    return loaded(folder, config, settings)


@pytest.mark.parametrize(
    ("probe_s", "sample_s", "told_every_s"), [(60, 10.0, 10.0), (30, 5.0, 5.0), (1, 0.5, 0.5)]
)
def test_jobs_are_measured_as_often_as_trials_need_it(
    tmp_path: Path, probe_s: int, sample_s: float, told_every_s: float
) -> None:
    found = as_wanted(Limits(), trying(tmp_path, f"migration={{probe={probe_s}}}"))
    assert (found.sample_s, found.told_every_s) == (sample_s, told_every_s)
    assert as_wanted(Limits(), loaded(tmp_path, TURNS, "policy={}")).told_every_s == 60.0


def test_trials_without_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"backend\.local\.sample above 0"):
        as_wanted(Limits(sample_s=0.0), trying(tmp_path, "migration={}"))


def test_a_live_probe_lasts_as_many_samples_as_a_trial_needs() -> None:
    assert SAMPLES_IN_PROBE * channel.PROGRESS_EVERY_S * 1e6 == PROBE_LIVE_LEAST_US


@pytest.mark.parametrize(("quantum_s", "probe"), [(60, ""), (60, "probe=60"), (1, "probe=6")])
@pytest.mark.parametrize("tried", ["packing", "migration"])
def test_a_live_probe_may_be_as_short_as_a_quantum_and_its_samples_allow(
    tmp_path: Path, tried: str, quantum_s: int, probe: str
) -> None:
    config = trying(tmp_path, f"{tried}={{{probe}}}", quantum_s=quantum_s)
    policy_runtime(config, instant=False)


def test_a_simulated_probe_is_as_short_as_its_samples_allow(tmp_path: Path) -> None:
    simulated = (
        f'{SERVER}[policy]\nname = "gandiva"\ntrigger = "event"\n'
        "[simulation.samples]\nevery = 0.9\n[workload.generate]\njobs = 4\ngpus_max = 1\n"
    )
    policy_runtime(trying(tmp_path, "packing={probe=5.9}", simulated, quantum_s=1), instant=True)
