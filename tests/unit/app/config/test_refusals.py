"""What is wrong in a config, and what its operator is told: each row is a fault and its message.

A line of a table is `KEY=VALUE -> MESSAGE`, with several settings parted by semicolons. They are
set, as by `--set`, in the config of the table. The tables say when a fault is found: as the config
is read, or as its policy is made.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shunter.config import load_config, make_config, policy_runtime
from shunter.errors import ConfigError
from tests.unit.app.config.texts import (
    GENERATED,
    GROUPS,
    LIVE,
    RATED,
    SIZED,
    SKEWED,
    TOPOLOGY,
    TURNS,
    UNITS,
    written,
)
from tests.unit.app.conftest import CONFIG as PLAIN

# One value that cannot be: the message begins with where it was set.
VALUES = {
    PLAIN: """
schema=2 -> expected 1, not 2
seed=-1 -> expected 0 or more, not -1
seed=1.5 -> expected a whole number, not 1.5
seed=true -> expected a whole number, not True
seed=x -> expected a whole number, not 'x'
cluster.file='' -> expected a text
cluster.file=3 -> expected a text
cluster.file=["a.csv"] -> expected a text
cluster={} -> expected tables [[cluster.nodes]] or file =
cluster.nodes.0.gpus=-4 -> expected 0 or more, not -4
cluster.nodes.0.gpus=65 -> expected 64 or less, not 65
cluster.nodes.0.cpus=-1 -> expected 0 or more, not -1
cluster.nodes.0.memory_gb=-1 -> expected 0 or more, not -1
cluster.nodes.0.memory_gb=nan -> expected a finite number, not nan
cluster.nodes.0.memory_gb=inf -> expected a finite number, not inf
cluster.nodes.0.count=-1 -> expected 0 or more, not -1
cluster.nodes.0.name='gpu[1-' -> expected a hostlist such as 'gpu[001-100]'
cluster.nodes.0.name='@all' -> expected host names of letters
cluster.nodes.0.sockets=0 -> expected 1 or more, not 0
policy.name=lass -> no policy 'lass'; did you mean 'las'?
policy.name=lass -> known: allox,
policy.name=lass -> fifo, fifo_backfill, fifo_easy, finish_time_fairness, ftf,
policy.round=0 -> expected more than 0, not 0
policy.round='-5s' -> expected a duration such as 90
policy.round=nan -> a duration must be finite
policy.round='5x' -> expected a duration such as 90
policy.trigger=never -> expected 'round' or 'event', not 'never'
policy.placement=best -> 'consolidated', 'spread', 'first_fit', 'skew' or 'topology', not 'best'
policy.sizing=most -> expected 'proportional', 'greedy', 'tune' or 'opt', not 'most'
policy.guards.max_preemptions_per_job_hour=0 -> expected 1 or more, not 0
policy.guards.starvation_after=0 -> expected more than 0, not 0
policy.params.las.queues_gpu_s=[5, 3] -> thresholds above 0 that strictly rise
policy.params.las.queues_gpu_s=[-5] -> thresholds above 0 that strictly rise
policy.params.las.thresholds=[5] -> unknown key
policy.params.fifo.x=1 -> unknown key
policy.params.srtf.x=1 -> unknown key
policy.params.gavle.x=1 -> no policy 'gavle'
policy.params.gandiva.height_most=0 -> expected 1 or more, not 0
policy.params.gandiva.grow_after='0s' -> expected
policy.params.gandiva.grow_after='-1s' -> expected a duration
policy.params.gandiva.grow_after='soon' -> expected a duration
policy.params.gandiva.grow_after=true -> expected a duration
policy.decentralised.candidates=0 -> expected 1 or more
policy.decentralised.reserve_after=0 -> expected 1 or more
policy.decentralised.staleness='-1s' -> expected a duration
policy.decentralised.retry='0s' -> expected more than 0
policy.decentralised.schedulers='mine' -> 'built_in'
policy.decentralised.stale=3 -> unknown key
workload.rows=[-1, 5] -> expected 0 or more, not -1
workload.trace='' -> expected a text that is not empty, not ''
workload.format=xml -> expected one of canonical-csv, canonical-jsonl,
workload.generate.jobs=0 -> expected 1 or more, not 0
workload.generate.load=0 -> expected more than 0, not 0
workload.generate.load=nan -> expected a finite number, not nan
workload.generate.jobs_per_hour=0 -> expected more than 0, not 0
queues.a.quota_gpus=-1 -> expected 0 or more, not -1
queues.a.weight=0 -> expected more than 0, not 0
queues.a=5 -> expected a table, not 5
simulation.costs.start=-1 -> expected 0 or more, not -1
simulation.lease.progress=some -> expected 'continuous' or 'whole_steps', not 'some'
simulation.failures.mttr=0 -> expected more than 0, not 0
simulation.failures.mttr=0.5 -> expected 1s or more, not
simulation.failures.mtbf=0.000001 -> expected 1s or more, not
simulation.failures.rack_mtbf=0.9 -> expected 1s or more, not
simulation.speeds.relative.k80=0 -> expected more than 0, not 0
simulation.turn_ends=soon -> expected 'at_boundary'
log.reasons=some -> expected 'all' or 'transitions', not 'some'
""",
    RATED: """
workload.throughputs=none.json -> there is no file none.json
workload.throughputs=builtin:me -> no table 'builtin:me'; expected builtin:gavel
workload.throughputs= -> expected a text that is not empty
workload.throughputs=3 -> expected a text, not 3
cluster.nodes.0.type=t4 -> has no throughputs on 't4'; expected one of v100, k80
""",
    SKEWED: """
policy.skew.models.vgg61=0.5 -> no model 'vgg61' in builtin:model-skew; did you mean
policy.skew.models.vgg16=1.5 -> expected 1 or less, not 1.5
policy.skew.threshold=-1 -> expected 0 or more, not -1
policy.skew.threshold=nan -> expected
policy.skew.table=builtin:other -> there is no table
policy.skew.table=none.csv -> there is no file
policy.skew.unknown=maybe -> expected 'spread', 'consolidate' or
simulation.costs.checkpoint_mb=-1 -> expected a number of MB, 0 or more, or 'model'
simulation.costs.checkpoint_mb=true -> expected a number of MB, 0 or more, or 'model'
simulation.costs.checkpoint_mb=nan -> expected a number of MB, 0 or more, or 'model'
simulation.costs.checkpoint_mb=500 -> expected bandwidth_mb_s, in MB per second, too
simulation.costs.bandwidth_mb_s=0 -> bandwidth_mb_s: expected more than 0, not 0
simulation.costs.model_mb.vgg16=5 -> model_mb is set: expected checkpoint_mb = 'model'
""",
    TOPOLOGY: """
policy.topology.pack_above=1.5 -> expected 1 or less, not 1.5
policy.topology.mode=tight -> expected 'adaptive', 'spread' or 'pack'
policy.topology.make_room.cost=0 -> expected more than 0
policy.topology.make_room.cost=soon -> expected a duration
policy.topology.make_room.moves_most=17 -> expected 16 or less, not 17
policy.topology.make_room.moves=3 -> unknown key
""",
    TURNS: """
policy.slicing.boundary_most=-1 -> expected
policy.slicing.boundary_most=soon -> expected
policy.slicing.boundary='1s' -> unknown key; did you mean 'boundary_most'?
policy.slicing.quantum=0 -> expected
policy.slicing.quantum=-1 -> expected
policy.slicing.quantum='1us' -> expected 50 ms at least, not 0.001 ms
policy.slicing.quantum=0.049 -> expected 50 ms at least, not 49 ms
policy.params.gandiva.migration.goals=[] -> one at least
policy.params.gandiva.migration.goals=["apart", "apart"] -> each once
policy.params.gandiva.migration.goals=["faster"] -> expected
policy.params.gandiva.migration.cost=-1 -> expected
""",
    LIVE: """
server.listen='tcp:127.0.0.1:8711' -> token_file
server.listen='tcp:0.0.0.0:8711' -> token_file
server.listen='unix:relative.sock' -> absolute
server.listen=8711 -> expected
server.listen='8711' -> no address
server.listen=[] -> at least 1 item
server.socket_mode='0777' -> expected
server.tsl={} -> unknown key; did you mean 'tls'?
""",
}

# Keys that contradict each other, or a table that makes no sense: found as the config is read.
READ = {
    PLAIN: """
cluster.nodes.0.count=0 -> no server is left: every group has count = 0 or an empty hostlist
cluster.nodes.0.name='' -> no server is left
cluster.nodes.0={name="a", gpus=0} -> gpus = 0 and cpus = 0: a server needs GPUs or CPUs
cluster.nodes.0.count=3 -> count = 3, and 'gpu[1-2]' names 2 servers
cluster.nodes.1={name="gpu2", gpus=4} -> server 'gpu2' is listed twice
cluster.nodes.0.sockets=3 -> sockets = 3 does not divide gpus = 4 evenly
cluster.nodes.0.switches=8 -> switches = 8 does not divide gpus = 4 evenly
cluster.nodes.0.nvlink=[[0, 4]] -> different GPU numbers from 0 to 3
cluster.nodes.0.nvlink=[[1, 1]] -> different GPU numbers from 0 to 3
cluster.nodes.0.nvlink=[[1]] -> different GPU numbers from 0 to 3
cluster.nodes.0.device=fpga -> device 'fpga' is not known:
cluster.nodes.1={name="b", gpus=4, device="tpu"} -> type 'gpu' names devices of two
cluster.devices.cpu={visible="X"} -> units of CPU are no devices
cluster.devices.fpga={visible="2 X"} -> should match pattern
cluster.nodes.0={name="a", gpus=0, cpus=4, units=2, device="tpu"} -> leave one out
workload={} -> expected either trace = 'FILE' or a table
workload={trace="x", generate={}} -> expected either trace = 'FILE'
workload={generate={}, rows=[0, 5]} -> format, rows and options choose from
workload.rows=[5, 5] -> expected [first, end] with first < end
workload.generate.ends={failed=0.6, cancelled=0.6} -> at most 1 together
workload.base_type='v100' -> expected throughputs = 'FILE' too
simulation.lease.credit=at_grant -> [simulation.lease] needs rounds
simulation.failures.rack_mtbf='1d' -> no group of cluster.nodes has a rack
simulation.costs.gpu_copy_mb_s=1000 -> gpu_copy_mb_s is set: expected workload.factors
simulation.lease.progress=whole_steps; policy={slicing={}} -> policy.slicing: turns are no leases
""",
    GENERATED: """
policy={name="las", trigger="event", params={las={queues_gpu_s=[]}}}
  -> policy.trigger: las with queues_gpu_s = [] ranks by the service itself
policy={name="blox_peer", trigger="event", params={blox_peer={schedule="las"}}}
  -> policy.trigger: blox_peer with schedule = 'las' ranks by the time run
workload.generate={load=1.0, jobs_per_hour=2.0} -> load and jobs_per_hour are both given
workload.generate.weights=true -> kind = 'philly-like' has no weights and no deadlines
workload.generate.deadlines=true -> kind = 'philly-like' has no weights and no deadlines
workload.generate={kind="gavel-like", weights=5} -> weights: expected true or false, not 5
""",
    GROUPS: """
cluster.nodes.0.switch_gpus=[[0, 1, 2, 3], [4, 5, 6]] -> no group has GPU 7: expected a map that
cluster.nodes.0.switch_gpus=[[0, 1, 2, 3], [3, 4, 5, 6, 7]] -> GPU 3 stands twice: expected groups
cluster.nodes.0.switch_gpus=[[0, 0, 1, 2, 3], [4, 5, 6, 7]] -> GPU 0 stands twice
cluster.nodes.0.socket_gpus=[[0, 1, 2, 3], [4, 5, 6, 8]] -> names GPU 8, and gpus = 8: expected
cluster.nodes.0={name="a", gpus=8, sockets=2, switch_gpus=[[0, 1], [2, 3, 4, 5], [6, 7]]}
  -> [2, 3, 4, 5] lies across
cluster.nodes.0.switch_gpus=[[], [0, 1, 2, 3, 4, 5, 6, 7]] -> at least 1 item
cluster.nodes.0={name="a", gpus=8, switches=2, switch_gpus=[[0, 1, 2, 3], [4, 5, 6, 7]]}
  -> are both given
cluster.nodes.0.switches=3 -> switches = 3 does not divide gpus = 8 evenly
cluster.nodes.0={name="a", gpus=8, sockets=4, switches=2}
  -> switches = 2 is no multiple of sockets = 4
cluster.nodes.0.socket_cpus=[[0], [1]] -> lists 2 sockets, and sockets says 1: expected the CPUs
cluster.nodes.0={name="a", gpus=8, socket_gpus=[[0, 1, 2, 3], [4, 5, 6, 7]], socket_cpus=[[0]]}
  -> lists 1 sockets, and socket_gpus says 2
cluster.nodes.0={name="a", gpus=8, sockets=2, socket_cpus=[[0, 1], [1, 2]]}
  -> CPU 1 stands twice: expected it on one
cluster.nodes.0={name="a", gpus=8, sockets=2, socket_cpus=[[0], [1]], cpus=4}
  -> names 2 CPUs, and cpus = 4
cluster.nodes.0={name="a", gpus=8, sockets=2, socket_cpus=[[0], []]} -> at least 1 item
""",
    UNITS: """
cluster.nodes.0.cpus=3 -> units = 2 does not divide cpus = 3 evenly
cluster.nodes.0.gpus=1 -> units = 2 and gpus = 1: units are for servers without GPUs
cluster.nodes.0.cpus=0 -> gpus = 0 and cpus = 0: a server needs GPUs or CPUs
cluster.nodes.0.sockets=4 -> sockets = 4 does not divide units = 2 evenly
cluster.nodes.0.type=v100 -> type 'v100' names both GPUs and units of CPUs
cluster.nodes.0.type=arm -> has no throughputs on 'arm'; expected one of v100, cpu
cluster.nodes.1.type=cpu -> type 'cpu' names both GPUs and units of CPUs
cluster.nodes.2={name="d", gpus=0, units=1, cpus=4, type="cpu"}
  -> type 'cpu' names units of 2 and of 4 CPUs, which are not equally fast
backend={kind="slurm", slurm={root="r", partition="p"}}; log.url=log.db
  -> gives out GPUs alone
workload.throughputs=pairs.json
  -> has pairs of jobs on 'cpu', and nobody shares units of CPU; take the pairs out
""",
    SIZED: """
policy={name="las", sizing="proportional", correct_beyond=0.2}
  -> expected none: only sizing 'greedy', 'tune' and 'opt' go by a table
policy.solve_limit='1s' -> expected none: only sizing 'opt' searches
cluster.nodes.0.cpus=0 -> expected cpus, by which policy.sizing sizes jobs
cluster.nodes.0.memory_gb=0 -> expected memory_gb, by which policy.sizing sizes jobs
workload.sensitivity='builtin:other' -> expected builtin:synergy or a file
backend={kind="slurm", slurm={root="r", partition="p", mode="per-job"}}; log.url=log.db
  -> leaves CPUs and memory to Slurm
""",
    TOPOLOGY: """
policy.topology.pack_above=0.3
  -> policy.topology: spread_below = 0.4 is above pack_above = 0.3
""",
    RATED: """
workload.base_type=a100 -> no throughputs on 'a100', the GPU type at which durations
""",
    LIVE: """
backend={kind="simulated"} -> workload: missing; expected the jobs
backend={kind="simulated"}; workload.throughputs='builtin:gavel' -> workload: expected either trace
backend={kind="local"} -> expected a table [backend.local] with root
log.url='none:' -> log.url: expected a path
log.url='memory:' -> log.url: expected a path
simulation.costs.start='5s' -> [simulation] is set
backend.local.suspend_signal=SIGUSR9 -> SIGUSR9' is no signal
backend.local={root="r", heartbeat="10s", heartbeat_deadline="15s"}
  -> heartbeat_deadline: expected three times
backend={kind="slurm", slurm={root="r", partition="p", stops_by="scontrol"}}
  -> stops_by: 'scontrol' needs mode = 'per-job'
backend={kind="slurm"} -> shunter init --slurm PARTITION
backend={kind="slurm", slurm={root="r", partition="p", mode="array"}} -> 'pilot' or 'per-job'
backend={kind="slurm", slurm={root="r", partition="p", poll="1s"}} -> backend.slurm.poll
backend={kind="slurm", slurm={root="r", partition=""}} -> backend.slurm.partition
backend={kind="slurm", slurm={root="r", partition="p", pilots_max=0}} -> backend.slurm.pilots_max
backend={kind="slurm", slurm={root="r", partition="p", options=["-A lab"]}} -> backend.slurm.options
backend={kind="slurm", slurm={root="r", partition="p", options=["--gres=gpu:8"]}}
  -> --gres=gpu:8 follows from other keys or from the plan
backend={kind="ssh"} -> shunter init --ssh HOSTS
backend={kind="ssh", ssh={root="d", keys=[]}} -> no way to log in: expected keys
backend={kind="ssh", ssh={root="d", keys=["k"], margin=1.0}} -> margin: expected 3s or more
backend={kind="ssh", ssh={root="d", keys=["k"], port=70000}}
  -> backend.ssh.port: expected 65535 or less
backend={kind="ssh", ssh={root="d", keys=["k"], pasword="x"}} -> backend.ssh.pasword
backend={kind="slurm", slurm={root="r", partition="p", mode="per-job"}}; policy.slicing={}
  -> policy.slicing: Slurm gives no GPU to two jobs
server={listen="tcp:0.0.0.0:8711", token_file="t"} -> [server.tls]
server={listen="tcp:gpu1.example:8711", token_file="t"} -> [server.tls]
server={listen="https://127.0.0.1:1", token_file="t"} -> tcp:HOST:PORT
server={listen="tcp:localhost:99999", token_file="t"} -> 65535
""",
    TURNS: """
policy.params.gandiva.migration={goals=["cheaper_type"], cheaper=["k80"]} -> two types of GPU
""",
}

# What only the policy can say.
MADE = {
    GENERATED: """
policy={name="two_level", trigger="event", params={two_level={inside_params={queues_gpu_s=[]}}}}
  -> policy.params.two_level.inside_params: las with queues_gpu_s = [] ranks by
policy.name=gandiva -> policy gandiva shares GPUs in turns
policy={name="gandiva", slicing={}, decentralised={}}
  -> policy 'gandiva' does not say who may start wherever
policy={name="gandiva", placement="topology", topology={make_room={}}}
  -> policy 'gandiva' makes no room by moves; expected an
policy.decentralised.schedulers=callers -> nobody calls in a simulation, so no job would start
""",
    SIZED: """
workload={trace="jobs.csv"} -> name a table as workload.sensitivity
policy.name=gavel -> policy 'gavel' has no index by which jobs could be sized
policy.name=gandiva -> policy 'gandiva' has no index by which jobs could be sized
policy.name=two_level -> policy 'two_level' has no index by which jobs could be sized
policy={name="las", sizing="tune", decentralised={schedulers="callers"}} -> expected 'built_in'
policy={name="las", slicing={}, decentralised={}} -> with policy.slicing jobs are put on GPUs
""",
    TOPOLOGY: """
policy.placement=consolidated; policy.topology={make_room={}}
  -> make_room: expected policy.placement = 'topology'
policy.topology.make_room={}; policy.slicing={} -> with policy.slicing jobs are put on GPUs that
""",
    LIVE: """
policy={name="min_cost", params={min_cost={prices={k80=2.5}}}}
  -> policy.params.min_cost.prices: no price of v100
""",
    TURNS: """
policy.params.gandiva.packing.gpu_memory_mb={v100=16000, k800=12000}
  -> gandiva.packing.gpu_memory_mb: no server has k800; expected
policy.params.gandiva.migration={goals=["cheaper_type"], cheaper=["k800", "v100"]}
  -> gandiva.migration.cheaper: no server has k800; expected
policy.params.gandiva.packing={probe=59} -> gandiva.packing.probe: expected
policy.params.gandiva.migration={probe=59} -> gandiva.migration.probe: expected
policy.slicing.quantum=1; policy.params.gandiva.packing={probe=5.9}
  -> policy.params.gandiva.packing.probe: expected 6s at least, not 5.9s: live jobs
policy.slicing.quantum=1; policy.params.gandiva.migration={probe=5.9}
  -> policy.params.gandiva.migration.probe: expected 6s at least, not 5.9s: live jobs
""",
}


def _rows(table: dict[str, str], *stage: str) -> list[Any]:
    """Return (config, settings, message, stage) of each row."""
    rows = []
    for config, text in table.items():
        for line in text.replace("\n  -> ", " -> ").strip().split("\n"):
            settings, message = line.split(" -> ")
            rows.append(pytest.param(config, settings, message, *stage, id=settings))
    return rows


def refusal(folder: Path, config: str, settings: str, stage: str) -> str:
    """Return what is said of a config with some settings, at a stage and not before it."""
    path = written(folder, config)
    overrides = [("--set", setting) for setting in settings.split("; ")]
    steps: dict[str, Callable[[Any], Any]] = {
        "read": lambda path: load_config(path, overrides, {}),
        "made": lambda loaded: policy_runtime(loaded, instant=True),
    }
    made: Any = path
    for name, step in steps.items():
        if name == stage:
            with pytest.raises(ConfigError) as refused:
                step(made)
            return str(refused.value)
        made = step(made)
    raise AssertionError(f"there is no stage {stage}")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # paths that are set are relative to it


@pytest.mark.parametrize(("config", "setting", "message"), _rows(VALUES))
def test_wrong_value_is_named_with_what_was_expected(
    tmp_path: Path, config: str, setting: str, message: str
) -> None:
    said = refusal(tmp_path, config, setting, "read")

    assert said.startswith(f"--set {setting.partition('=')[0]}")
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("config", "settings", "message", "stage"),
    [*_rows(READ, "read"), *_rows(MADE, "made")],
)
def test_what_makes_no_sense_is_told_as_soon_as_it_shows(
    tmp_path: Path, config: str, settings: str, message: str, stage: str
) -> None:
    assert message in refusal(tmp_path, config, settings, stage)


@pytest.mark.parametrize(
    "policy",
    [
        {"name": "las", "params": {"las": {"queues_gpu_s": []}}},
        {"name": "blox_peer", "params": {"blox_peer": {"schedule": "las"}}},
        {"name": "two_level", "params": {"two_level": {"inside_params": {"queues_gpu_s": []}}}},
    ],
)
def test_rank_that_changes_all_the_time_is_taken_in_rounds(policy: dict[str, object]) -> None:
    tree = {"cluster": {"nodes": [{"name": "a", "gpus": 1}]}, "workload": {"generate": {}}}
    in_rounds = make_config(tree | {"policy": {**policy, "trigger": "round"}})
    assert policy_runtime(in_rounds, instant=True).rules.round_us


def test_every_wrong_key_gets_a_line_with_the_file_and_the_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'sead = 1\n[[cluster.nodes]]\nname = "a"\ngpu = 3\n'
        '[[cluster.nodes]]\nname = "b"\ngpus = [\n  1, 2\n]\n[workload.generate]\njobs = 0\n',
    )
    with pytest.raises(ConfigError) as refused:
        load_config(path, [], {})

    lines = str(refused.value).splitlines()
    assert [line.split(": ")[0:2] for line in lines] == [
        [f"{path}:2", "cluster.nodes.0.gpus"],
        [f"{path}:4", "cluster.nodes.0.gpu"],
        [f"{path}:7", "cluster.nodes.1.gpus"],
        [f"{path}:11", "workload.generate.jobs"],
        [f"{path}:1", "sead"],
    ]
    assert "unknown key; did you mean 'seed'?" in lines[-1]


def test_config_without_cluster_or_workload_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(written(tmp_path, "seed = 1"), [], {})

    assert "cluster: missing; expected the servers" in str(refused.value)
    assert "workload: missing; expected the jobs" in str(refused.value)
