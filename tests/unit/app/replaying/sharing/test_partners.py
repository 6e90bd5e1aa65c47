"""Partners on shared GPUs in words: they gain nothing, and had to leave for nobody."""

import pytest

from shunter.ask import because_in_words, names_partners
from shunter.events import Because
from tests.factories import job_id

J1 = (job_id(1),)


@pytest.mark.parametrize(
    ("because", "words"),
    [
        (
            Because("target_share_beside", (0.5, 0.25), J1, "v100"),
            "target share beside j1, got a 0.25 share of v100 where it was to have 0.50",
        ),
        (Because("gavel_peer_beside", (0.5, 0.25), J1), "gavel_peer_beside (0.5, 0.25), beside j1"),
        (Because("gavel_peer", (0.5, 0.25)), "gavel_peer (0.5, 0.25)"),
        (Because("outranked", (3,), J1), "outranked (3), for j1"),
    ],
    ids=lambda value: value.rule if isinstance(value, Because) else "",
)
def test_rule_tells_partners_from_those_who_gain(because: Because, words: str) -> None:
    assert because_in_words(because) == words
    assert names_partners(because) == ("beside" in words)
