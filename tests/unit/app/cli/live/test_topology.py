"""The picture of the cluster that `shunter nodes --topology` draws."""

from typing import Any

from shunter.cli import picture_of


def _gpu(index: int, state: str = "free", *jobs: str) -> dict[str, Any]:
    return {"index": index, "state": state, "jobs": list(jobs)}


def _node(name: str, gpus: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    usual = {"state": "up", "gpu_type": "v100", "device": "gpu", "rack": "", "domain": ""}
    return {"name": name, "gpus": gpus, "levels": [], "links": [], **usual, **values}


def test_picture_nests_domains_racks_servers_sockets_and_switches() -> None:
    gpus = [_gpu(0, "used", "j7"), _gpu(1, "used", "j7", "j8"), _gpu(2), _gpu(3, "quarantined")]
    levels = [
        {"level": "switch", "groups": [[0], [1], [2, 3]]},
        {"level": "socket", "groups": [[0, 1], [2, 3]]},
    ]
    nodes = [
        _node("a", gpus, levels=levels, links=[[0, 1]], rack="r1", domain="ib0"),
        _node("c", [_gpu(0), _gpu(1)], state="drained", rack="r2"),
        _node("b", [_gpu(0)], rack="r1", domain="ib0"),
        _node("d", []),
    ]

    assert list(picture_of(nodes)) == [
        "domain ib0",
        "  rack r1",
        "    a  v100, up, 1 of 4 GPUs free",
        "      socket  switch  0 j7",
        "              switch  1 j7+j8",
        "      socket  switch  2 .            3 quarantined",
        "      joined  0-1",
        "    b  v100, up, 1 of 1 GPU free",
        "      0 .",
        "rack r2",
        "  c  v100, drained, 0 of 2 GPUs free",
        "    0 .  1 .",
        "d  up, no GPUs",
    ]


def test_quarantined_gpu_under_a_job_is_marked() -> None:
    gpus = [_gpu(0, "used", "j7"), _gpu(1, "used", "j7"), _gpu(2, "quarantined")]
    quarantined = [{"gpu": gpu, "cause": "ana", "at": None} for gpu in (1, 2)]

    assert list(picture_of([_node("a", gpus, quarantined=quarantined)]))[1:] == [
        "  0 j7              1 j7 quarantined  2 quarantined"
    ]


def test_joined_gpus_are_drawn_together_across_sockets() -> None:
    gpus = [_gpu(0, "used", "j7"), _gpu(1), _gpu(2, "used", "j7"), _gpu(3), _gpu(4)]
    levels = [
        {"level": "nvlink", "groups": [[0, 2], [1, 3], [4]]},
        {"level": "socket", "groups": [[0, 1], [2, 3, 4]]},
    ]

    assert list(picture_of([_node("a", gpus, levels=levels, links=[[0, 2], [1, 3]])]))[1:] == [
        "  socket  0 j7  1 .",
        "  socket  2 j7  3 .   4 .",
        "  nvlink  0 j7  2 j7",
        "  nvlink  1 .   3 .",
    ]


def test_servers_of_an_earlier_daemon_are_drawn_without_what_it_does_not_say() -> None:
    old = _node("a", [_gpu(0), _gpu(1)])
    for key in ("domain", "levels", "links", "device"):
        del old[key]

    assert list(picture_of([old])) == ["a  v100, up, 2 of 2 GPUs free", "  0 .  1 ."]


def test_cpus_of_sockets_and_who_told_the_map_stand_below_the_gpus() -> None:
    told = {
        "sockets": [{"gpus": [0, 1], "cpus": [0, 1, 2, 8]}, {"gpus": [2], "cpus": [4]}],
        "map_by": "sysfs and hwloc",
        "place_by": "Slurm",
        "map_notes": ["nvlink are [[0, 1]] by the config: correct it"],
    }
    assert list(picture_of([_node("a", [_gpu(0), _gpu(1), _gpu(2)], **told)])) == [
        "a  v100, up, 3 of 3 GPUs free",
        "  0 .  1 .  2 .",
        "  CPUs    0-2,8 for GPUs 0-1, 4 for GPUs 2",
        "  map     by sysfs and hwloc of the server",
        "  rack    by Slurm",
        "  note    nvlink are [[0, 1]] by the config: correct it",
    ]
