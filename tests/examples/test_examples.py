import pytest

from tests.examples.commands import Example, examples, without_digests


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_example_says_how_to_run_it(example: Example) -> None:
    assert example.commands()


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_example_prints_what_stands_beside_it(example: Example) -> None:
    assert example.expected.exists(), f"{example.expected.name} is missing"
    expected = example.expected.read_text(encoding="utf-8")
    assert without_digests(example.run()) == without_digests(expected)
