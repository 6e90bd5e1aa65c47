"""`[cluster.devices]`: kinds of accelerators, and how a process is told which ones are its own."""

from typing import Final

from pydantic import Field

from shunter.config.section import Section

GPU: Final = "gpu"
VISIBLE: Final = {
    GPU: "CUDA_VISIBLE_DEVICES",
    "rocm": "ROCR_VISIBLE_DEVICES",
    "tpu": "TPU_VISIBLE_CHIPS",
}
"""By kind of device, the variable by which a process is told which ones it may use."""


class DeviceKind(Section):
    """A kind of accelerator, by what a job's processes are told of theirs."""

    visible: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="environment variable that lists the devices a process may use",
    )
