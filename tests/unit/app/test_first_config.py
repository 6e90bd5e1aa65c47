"""What is said of GPUs while a first config is written."""

import pytest

from shunter.ops import first_config


@pytest.mark.parametrize(("gpus", "is_warned"), [(4, True), (2, False), (1, False), (None, False)])
def test_more_gpus_than_are_seen_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, gpus: int | None, is_warned: bool
) -> None:
    unread = ("uuid", "name", "bus", "utilisation", "memory_mb", "memory_total_mb", "memory_by_pid")
    told: dict[str, object] = {"faults": {}, **dict.fromkeys(unread)}
    seen = {"by": "nvidia-smi", "code": 0, "gpus": [{**told, "index": index} for index in (0, 1)]}
    monkeypatch.setattr(first_config, "read_gpus", lambda: seen)
    _, notes = first_config.local_config(gpus)
    assert any("--gpus 4, and nvidia-smi sees 2: " in note for note in notes) is is_warned
