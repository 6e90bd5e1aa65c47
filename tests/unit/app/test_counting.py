import pytest

from shunter.counting import counted


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 GPUs"),
        (1, "1 GPU"),
        (2, "2 GPUs"),
        (1000, "1,000 GPUs"),
        (1.0, "1 GPU"),
        (0.5, "0.5 GPUs"),
    ],
)
def test_one_thing_is_told_without_an_s(count: float, words: str) -> None:
    assert counted(count, "GPU") == words
