"""Hostlists, GPUs, instants and limits as Slurm writes them."""

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given, strategies as st

from shunter.backends.slurm import expanded, gpu_indices, gpus_in_gres, instant_s, limit_s, whole
from shunter.errors import SlurmUnknownError


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
