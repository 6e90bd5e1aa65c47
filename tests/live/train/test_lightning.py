"""The adapter for Lightning, with Lightning: suspended in mid-epoch, nothing is lost."""

from pathlib import Path

import pytest

from tests.live.train.attempts import attempts, undisturbed
from tests.live.train.programs import LIGHTNING

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("lightning")]


@pytest.mark.rotating("options", "stops")
@pytest.mark.parametrize(
    ("options", "stops"),
    [
        ("{}", (2, 5, 9)),  # the second at the end of an epoch, before its evaluation
        pytest.param(
            '{"package": "pytorch_lightning", "workers": 2}', (9,), marks=pytest.mark.thorough
        ),
        ('{"megabytes": 120}', (4,)),  # written by a thread of Lightning
        ('{"trainer": {"accumulate_grad_batches": 2, "val_check_interval": 3}}', (3, 8)),
    ],
)
def test_losses_order_and_evaluations_are_those_of_an_undisturbed_run(
    tmp_path: Path, options: str, stops: tuple[int, ...]
) -> None:
    library = "pytorch_lightning" if "pytorch_lightning" in options else "lightning.pytorch"
    expected = undisturbed(tmp_path / "whole", library, LIGHTNING, options)
    found = attempts(tmp_path / "cut", library, LIGHTNING, options, stops=stops)
    assert len([line for line in expected if line.split()[1].isdigit()]) == 18
    assert found == expected
