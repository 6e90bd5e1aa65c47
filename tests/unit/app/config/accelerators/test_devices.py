"""Kinds of devices: which variable shows a process its own."""

from typing import Any

import pytest

from shunter.backends.live import Limits, contract_of
from shunter.config import ClusterSection
from shunter.core import Launch
from shunter.events import Allocation, JobId, JobSpec, NodeName, Share

FPGA = {"fpga": {"visible": "FPGA_DEVICES"}}


def _cluster(*nodes: dict[str, Any], **values: Any) -> ClusterSection:
    rows = tuple({"gpus": 4, **node} for node in nodes)
    return ClusterSection.model_validate({"nodes": rows, **values})


def _environment(cluster: ClusterSection, node: str) -> dict[str, str]:
    effect = Launch(JobId("j0"), 1, Allocation((Share(NodeName(node), 6),)), JobSpec(2))
    limits = Limits(visible=cluster.visible())
    return dict(contract_of(effect, 0, ["1", "2"], limits, ("127.0.0.1", 23_450), "/c"))


@pytest.mark.parametrize(
    ("node", "variable"),
    [
        ("a", "CUDA_VISIBLE_DEVICES"),
        ("b", "TPU_VISIBLE_CHIPS"),
        ("c", "ROCR_VISIBLE_DEVICES"),
        ("d", "FPGA_DEVICES"),
    ],
)
def test_process_is_told_its_devices_in_the_variable_of_their_kind(
    node: str, variable: str
) -> None:
    cluster = _cluster(
        {"name": "a"},
        {"name": "b", "device": "tpu", "type": "v4"},
        {"name": "c", "device": "rocm", "type": "mi300"},
        {"name": "d", "device": "fpga", "type": "u280"},
        devices=FPGA,
    )
    found = _environment(cluster, node)

    assert found[variable] == "1,2"
    assert [name for name in found if "VISIBLE" in name or name == "FPGA_DEVICES"] == [variable]
    assert ("CUDA_DEVICE_ORDER" in found) is (node == "a")
    kinds = {name: where.device for name, where in cluster.servers()}
    assert kinds == {"a": "gpu", "b": "tpu", "c": "rocm", "d": "fpga"}
