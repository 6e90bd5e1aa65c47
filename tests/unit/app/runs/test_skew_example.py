"""Over-aggressive consolidation and careless spreading both lose; numbers computed by hand."""

from pathlib import Path

import pytest

from shunter.config import load_config
from shunter.run import simulate

CONFIG = Path(__file__).parents[4] / "examples" / "skew.toml"


@pytest.mark.parametrize(
    ("setting", "jct_s"),
    [
        # r1, r2, r3, v1, r4, r5, v2. Nobody waits but v1, for a whole server.
        ("policy.placement=skew", (100, 100, 100, 190, 200, 20, 100)),
        # r4 and r5 leave one GPU on each server, and v2 takes them: half speed.
        ("policy.placement=consolidated", (100, 100, 100, 190, 200, 20, 200)),
        # r3 waits for r1 beside two free GPUs, v2 for r5.
        ("policy.skew.threshold=0", (100, 100, 200, 190, 200, 20, 110)),
        # v1 and v2 are spread: half speed.
        ("policy.placement=spread", (100, 100, 100, 290, 200, 20, 200)),
    ],
)
def test_each_placement_gives_these_completion_times(setting: str, jct_s: tuple[int, ...]) -> None:
    result = simulate(load_config(CONFIG, [("--set", setting)], {}))
    stories = sorted(result.stories(), key=lambda story: story.ordinal)
    assert tuple(story.jct_us / 1e6 for story in stories if story.jct_us) == jct_s
    assert result.document["jct_s"]["mean"] == pytest.approx(sum(jct_s) / len(jct_s))
