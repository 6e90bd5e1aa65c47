"""What squeue, sacct and scontrol have told, as 22.05 did and as later versions do."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given, strategies as st

from shunter.backends.slurm import (
    Partition,
    QueuedJob,
    Reservation,
    SlurmJob,
    SlurmNode,
    expanded,
    gpu_indices,
    gpus_in_gres,
    instant_s,
    limit_s,
    past_jobs,
    queue_format,
    queued_jobs,
    read_nodes,
    read_partitions,
    read_reservations,
    read_settings,
    read_switches,
    whole,
)
from shunter.errors import SlurmUnknownError
from tests.unit.backends.slurm.recorded import WORD, recorded


def answer(version: str) -> str:
    """Return a recorded answer of squeue, without the fields that are not asked for any more."""
    asked = {field.partition(":")[0] for field in queue_format(WORD).split(",")}
    *cells, rest = recorded(version, "queue.txt").split(WORD)
    kept = [cell for cell in cells if cell.rpartition("=")[2] in asked]
    return WORD.join([*kept, rest])


def queue(version: str) -> dict[object, QueuedJob]:
    return {job.id: job for job in queued_jobs(answer(version), WORD)}


def nodes(version: str) -> dict[object, SlurmNode]:
    return {node.name: node for node in read_nodes(recorded(version, "nodes.txt"))}


def partitions(version: str) -> dict[object, Partition]:
    return {each.name: each for each in read_partitions(recorded(version, "partitions.txt"))}


def reservations(version: str) -> dict[object, Reservation]:
    return {each.name: each for each in read_reservations(recorded(version, "reservations.txt"))}


def past(version: str) -> dict[object, SlurmJob]:
    """Return the last row of each job."""
    return {job.id: job for job in past_jobs(recorded(version, "accounting.txt"), WORD)}


LINE_BREAKS = "innocent\n77=JobID~shunter:lab:j1.a1=Name|"
UNAVAILABLE = "ReqNodeNotAvail, May be reserved for other job"
GANG: dict[str, object] = {
    "name": "gang",
    "state": "COMPLETED",
    "user": "root",
    "nodes": ("n1", "n2"),
}
GANG |= {"submit_s": 1795522662, "start_s": 1795522665, "end_s": 1795522667}
N1 = {"name": "n1", "state": "MIXED", "version": "22.05.8", "cpus": 16, "cpus_used": 2}
N1 |= {"memory_mb": 64000, "memory_used_mb": 200, "gpus": {"v100": 4}, "is_in_service": True}
GPU01 = {"cpus": 190, "memory_mb": 2_050_000, "sockets": 2}
GPU02 = {"gpus": {"1g.10gb": 7, "a100": 1}, "version": "", "features": (), "is_in_service": False}


@pytest.mark.parametrize(
    ("read", "version", "which", "told"),
    [
        (queue, "22.05", 4, {**GANG, "time_limit_s": 300, "has_ended": True}),
        (queue, "22.05", 33, {"state": "PENDING", "nodes": (), "reason": UNAVAILABLE}),
        (queue, "22.05", 33, {"time_limit_s": 86_400, "has_ended": False}),
        (queue, "22.05", 34, {"name": LINE_BREAKS}),
        (queue, "22.05", 8, {"restarts": 1}),
        (queue, "22.05", 1, {"restarts": 0}),
        (past, "22.05", 8, {"state": "COMPLETED"}),
        (past, "22.05", 9, {"state": "CANCELLED"}),  # who cancelled it is no part of that
        (past, "22.05", 14, {"name": "new\nline|x"}),
        (nodes, "22.05", "n1", {**N1, "features": ("v100", "nvlink")}),
        (nodes, "22.05", "n1", {"gpus_used_indices": {"v100": (0, 1)}}),
        (nodes, "22.05", "n4", {"state": "MIXED", "flags": {"DRAIN"}, "is_in_service": False}),
        (nodes, "22.05", "n4", {"reason": "a fan is broken State=IDLE"}),
        (nodes, "24.11", "gpu01", {**GPU01, "gpus_used_indices": {"h100": (0, 1, 5)}}),
        (nodes, "24.11", "gpu02", GPU02),
        (nodes, "24.11", "gpu03", {"gpus": {"gpu": 2}, "gpus_used_indices": {"gpu": (1,)}}),
        (nodes, "24.11", "gpu03", {"state": "DOWN", "is_in_service": False}),
        (partitions, "22.05", "main", {"state": "UP", "nodes": ("n1", "n2", "n3", "n4")}),
        (partitions, "22.05", "main", {"time_limit_s": None}),
        (reservations, "22.05", "maint", {"nodes": ("n1", "n2"), "is_maintenance": True}),
        (reservations, "22.05", "maint", {"start_s": 1795526563, "end_s": 1795533763}),
    ],
)
def test_recorded_answer_is_read(
    read: Callable[[str], Mapping[object, object]], version: str, which: object, told: object
) -> None:
    found = read(version)[which]
    assert isinstance(told, dict)
    assert {name: getattr(found, name) for name in told} == told


def test_tasks_of_an_array_are_jobs_of_their_own_and_a_name_makes_no_other_job() -> None:
    assert {32, 35, 36} <= queue("22.05").keys()
    assert 77 not in queue("22.05")


def test_requeued_job_stands_in_accounting_once_for_each_submission() -> None:
    rows = [job for job in past_jobs(recorded("22.05", "accounting.txt"), WORD) if job.id == 8]
    assert [job.state for job in rows] == ["REQUEUED", "COMPLETED"]


def test_later_version_is_read_with_local_instants_and_states_that_are_new() -> None:
    running, other = queue("24.11").values()
    assert running.nodes == ("gpu01", "gpu03")
    assert running.start_s is not None
    assert running.submit_s is not None
    assert running.start_s - running.submit_s == 1
    assert (other.state, other.time_limit_s) == ("EXPEDITING", None)


def test_no_job_is_an_empty_queue() -> None:
    assert queued_jobs("", WORD) == ()


def test_answer_that_was_cut_off_is_unknown_never_a_shorter_queue() -> None:
    whole = answer("22.05")
    ends = {place for place in range(len(whole)) if whole[:place].endswith(f"=RestartCnt{WORD}")}
    middle = len(whole) // 2
    for length in sorted(set(range(middle, middle + 900)) - ends - {end + 1 for end in ends}):
        with pytest.raises(SlurmUnknownError):
            queued_jobs(whole[:length], WORD)


def test_word_that_would_be_read_as_a_width_is_not_used() -> None:
    with pytest.raises(AssertionError):
        queue_format("1~")


def test_answer_that_was_cut_off_is_unknown() -> None:
    whole = recorded("22.05", "accounting.txt")
    for length in (10, len(whole) // 2, len(whole) - 2):
        with pytest.raises(SlurmUnknownError):
            past_jobs(whole[:length], WORD)


def test_no_reservation_is_said_in_words() -> None:
    assert read_reservations("No reservations in the system\n") == ()


def test_blocks_are_read_and_what_other_plugins_tell_is_left_out() -> None:
    found = read_switches(recorded("24.11", "topology.txt") + "RingName=r1 Nodes=gpu[01-03]\n")
    assert {one.name: one.nodes for one in found} == {"b1": ("gpu01", "gpu02"), "b2": ("gpu03",)}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (partial(queued_jobs, word=WORD), "slurm_load_jobs error: down"),
        (partial(queued_jobs, word=WORD), "x=JobID~recorded~\n"),
        (read_nodes, "slurm_load_node error: Unable to contact slurm controller"),
        (read_nodes, "NodeName=n1 State=IDLE"),
        (read_nodes, "NodeName=n1 State=IDLE CPUTot=x CPUAlloc=0 RealMemory=1"),
        (read_settings, ""),
    ],
)
def test_other_answer_is_unknown(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(SlurmUnknownError):
        read(text)


def test_name_of_the_cluster_is_a_setting() -> None:
    assert read_settings("ClusterName             = lab\n")["ClusterName"] == "lab"


PLAIN = "NodeName=n1 CPUAlloc=0 CPUTot=16 RealMemory=64000 State=IDLE+DRAIN ExtSensorsTemp=n/s "
"""The line of a node by Slurm 22.05, without keys that are not read."""
SAID = "[root@2026-11-28T05:22:55]"


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (
            f"Reason=prolog instance=i-0123 job=42: down {SAID}",
            "prolog instance=i-0123 job=42: down",
        ),
        (f"Reason=gpu: Xid=79 {SAID} Comment=a Reason=b State=IDLE", "gpu: Xid=79"),
        (f"Reason=gpu: Xid=79 Comment=c: lost {SAID} Comment=d", "gpu: Xid=79 Comment=c: lost"),
        (f"Reason=a Extra=b {SAID} Extra=c [x@y] ReservationName=r", "a Extra=b"),
        ("Comment=ticket Reason=later State=IDLE", ""),
        ("Comment=ticket Reason=later [root@2026-11-28T05:22:55]", ""),
        ("Extra=owner=lab Reason=none ReservationName=r", ""),
        (f"Reason=a=1 {SAID}        second b=2 State=DOWN Comment=c", "a=1; second b=2 State=DOWN"),
        ("Reason=Not responding Comment=c", "Not responding"),
        (f"Reason=a\u2028NodeName=n9 State=IDLE {SAID}", "a\u2028NodeName=n9 State=IDLE"),
        (f"Reason={SAID}", ""),
    ],
)
def test_reason_of_a_node_is_the_whole_text_and_that_of_no_comment(texts: str, reason: str) -> None:
    (node,) = read_nodes(f"{PLAIN}{texts}\n")
    assert (node.name, node.state, node.reason) == ("n1", "IDLE", reason)


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
        ("n1", ("n1",)),
        ("n[1-3,7]", ("n1", "n2", "n3", "n7")),
        ("n[08-10]", ("n08", "n09", "n10")),
        ("b[2,1],a", ("b2", "b1", "a")),
        ("r[1-2]n[01-02]-ib", ("r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib")),
    ],
)
def test_hostlist_is_expanded_in_its_order(hostlist: str, names: tuple[str, ...]) -> None:
    assert expanded(hostlist) == names


@pytest.mark.parametrize(
    "hostlist", ["n[1-", "n[]", "n[a]", "n[3-1]", "n1,,n2", "n1]", "n[1-999999999]"]
)
def test_what_is_no_hostlist_is_unknown(hostlist: str) -> None:
    with pytest.raises(SlurmUnknownError):
        expanded(hostlist)


@given(
    st.lists(st.tuples(st.sampled_from(["n", "gpu", "r1n"]), st.integers(0, 120)), min_size=1),
    st.sampled_from([0, 3]),
)
def test_expansion_agrees_with_clustershell(pairs: list[tuple[str, int]], width: int) -> None:
    names = {f"{prefix}{str(number).zfill(width)}" for prefix, number in pairs}
    folded = str(NodeSet.fromlist(sorted(names), resolver=RESOLVER_NOGROUP))
    assert set(expanded(folded)) == names


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("(null)", {}),
        ("gpu:4", {"gpu": 4}),
        ("gpu", {"gpu": 1}),
        ("gpu:tesla", {"tesla": 1}),
        ("gpu:v100:4(S:0-1)", {"v100": 4}),
        ("gpu:a:2(S:0,1),gpu:b:1,gpu:a:1", {"a": 3, "b": 1}),
        ("gres:gpu:v100:2", {"v100": 2}),
        ("gres/gpu:v100=2", {"v100": 2}),
        ("gres/gpu:2,license:x:1", {"gpu": 2}),
        ("shard:8,mps:100,craynetwork:4", {}),
        ("N/A", {}),
    ],
)
def test_gpus_in_gres(text: str, gpus: dict[str, int]) -> None:
    assert gpus_in_gres(text) == gpus


def test_devices_in_use() -> None:
    assert gpu_indices("gpu:v100:3(IDX:0-1,3),gpu:k80:0(IDX:N/A)") == {"v100": (0, 1, 3), "k80": ()}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("UNLIMITED", None),
        ("infinite", None),
        ("Partition_Limit", None),
        ("30", 1800),
        ("5:00", 300),
        ("1:00:00", 3600),
        ("2-00:00:30", 172_830),
        ("1-12", 129_600),
    ],
)
def test_time_limits(text: str, seconds: int | None) -> None:
    assert limit_s(text) == seconds


def test_instants() -> None:
    assert (instant_s("1795522662"), instant_s("N/A"), instant_s("0")) == (1795522662, None, None)
    first, second = instant_s("2026-11-24T12:00:00"), instant_s("2026-11-24T12:00:01")
    assert first is not None
    assert second == first + 1
    with pytest.raises(ValueError, match="soon"):
        instant_s("soon")


def test_numbers_that_are_not_set_are_zero() -> None:
    assert [whole(text) for text in ("", "N/A", "4294967294", "2-4", "7")] == [0, 0, 0, 2, 7]
