"""Where a run trains: by what Shunter gave it, and by torch where it was imported."""

import sys
from types import SimpleNamespace

import pytest

from shunter import train


@pytest.mark.parametrize(
    ("visible", "torch_has", "device"),
    [
        ("", None, "cpu"),
        ("", True, "cpu"),
        ("0,1", None, "cuda"),
        ("0,1", False, "cpu"),
        (None, None, "cpu"),
        (None, True, "cuda"),
    ],
)
def test_a_run_trains_on_what_it_was_given(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, torch_has: bool | None, device: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    cuda = SimpleNamespace(is_available=lambda: torch_has)
    torch = None if torch_has is None else SimpleNamespace(cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert train.device() == device
