from importlib.util import find_spec

import pytest

from shunter_peers.gavel.policy_table import POLICY_TABLE
from tests.examples.commands import Example, examples, without_digests


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_example_says_how_to_run_it(example: Example) -> None:
    assert example.commands()


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_example_prints_what_stands_beside_it(example: Example) -> None:
    if find_spec("_ecos") is None and solves(example):
        pytest.skip("needs the extra `ecos`")
    assert example.expected.exists(), f"{example.expected.name} is missing"
    expected = example.expected.read_text(encoding="utf-8")
    assert without_digests(example.run()) == without_digests(expected)


def solves(example: Example) -> bool:
    """Say whether an example plays a policy of the Gavel simulator that solves."""
    play = POLICY_TABLE.get(example.path.stem) if "peers/gavel" in example.name else None
    return play is not None and play.form is not None
