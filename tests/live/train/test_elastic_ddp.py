"""An elastic DDP job grows from 1 to 4 ranks and shrinks to 2, and trains as one of fixed size.

On the local backend, by `resize`, with PyTorch on CPU (gloo, one thread a rank) and the same global
batch throughout. What differs from a run of one rank is the order in which gradients are summed:
`ddp` averages by the all-reduce of gloo, whose order depends on the ranks, so the difference is
measured; `in_order` sums the gradients of four quarters of the global batch, always in the same
order, whoever computed them, and nothing may differ. A run of the tests tries one of the two ways,
by its slice (tests/slices.py).
"""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from shunter.client import Client, JobHandle
from shunter.errors import NotFoundError
from tests.live.api.serving import Served, awaited
from tests.live.train.elastic import ENVIRONMENT, training
from tests.live.training import LACKS_TORCH
from tests.slices import share

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(LACKS_TORCH), reason=LACKS_TORCH or "it is there"),
    pytest.mark.xdist_group("training"),  # two daemons may choose the same port
]

WAYS = share(("ddp", "in_order"))
STEPS = 120
RESIZES = ((30, 4), (70, 2))
"""After so many steps at the earliest the job is given so many GPUs."""


class Trained(NamedTuple):
    """What a run printed, step by step, and the parameters at its end."""

    worlds: list[int]
    losses: list[float]
    digests: list[str]
    begins: list[tuple[int, str]]
    parameters: list[float]


def submitted(client: Client, folder: Path, way: str, name: str, most: int) -> JobHandle[int]:
    command = training(folder, way, STEPS, f"{name}.json")
    return client.submit(command, environment=ENVIRONMENT, gpus_max=most)


def output(client: Client, job_id: str, attempt: int) -> list[str]:
    """Return the whole lines of the first rank; none of an attempt that has yet to begin."""
    try:
        text = b"".join(client.logs(job_id, attempt=attempt)).decode()
    except NotFoundError:
        return []
    return [line for line in text.split("\n")[:-1] if line[:1].isdigit()]


def trained(client: Client, job: JobHandle[int], ends: Path, attempts: int) -> Trained:
    awaited(job.done)
    assert job.state() == "finished", output(client, job.id, attempts)
    assert len(job.describe()["attempts"]) == attempts
    lines = [
        line.split() for number in range(attempts) for line in output(client, job.id, number + 1)
    ]
    steps = [words for words in lines if words[1] == "step"]
    assert [int(words[2]) for words in steps] == list(range(1, STEPS + 1)), "each step once"
    return Trained(
        [int(words[0]) for words in steps],
        [float.fromhex(words[3]) for words in steps],
        [words[4] for words in steps],
        [(int(words[2]), words[3]) for words in lines if words[1] == "begins"],
        json.loads(ends.read_text()),
    )


def resized(client: Client, job: JobHandle[int]) -> None:
    """Give a job its sizes, each once it has trained for a while with the one before."""
    for attempt, (after, gpus) in enumerate(RESIZES, 1):

        def far_enough(number: int = attempt, least: int = after) -> bool:
            steps = [line.split() for line in output(client, job.id, number)]
            return any(words[1] == "step" and int(words[2]) >= least for words in steps)

        awaited(far_enough)
        client.resize(job.id, gpus)
        awaited(lambda number=attempt: len(job.describe()["attempts"]) > number)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Trained]:
    """Train twice each way: of one rank throughout, and elastic."""
    folder = tmp_path_factory.mktemp("elastic")
    found: dict[tuple[str, str], Trained] = {}
    with Served(folder) as served, served.client() as client:
        for way in WAYS:
            for kind in ("fixed", "elastic"):
                name = f"{way}-{kind}"
                job = submitted(client, folder, way, name, 4 if kind == "elastic" else 1)
                if kind == "elastic":
                    resized(client, job)
                attempts = 1 + len(RESIZES) * (kind == "elastic")
                found[way, kind] = trained(client, job, folder / f"{name}.json", attempts)
        served.end()
        verified = served.run("replay", str(served.root / "log.db"), "--verify")
        assert verified.returncode == 0, verified.stderr
    return found


@pytest.mark.parametrize("way", WAYS)
def test_gang_grows_from_one_to_four_ranks_and_shrinks_to_two(
    runs: dict[tuple[str, str], Trained], way: str
) -> None:
    fixed, elastic = runs[way, "fixed"], runs[way, "elastic"]
    assert set(fixed.worlds) == {1}
    assert list(dict.fromkeys(elastic.worlds)) == [1, 4, 2]
    assert all(elastic.worlds.count(world) >= 5 for world in (1, 4, 2))


@pytest.mark.parametrize("way", WAYS)
def test_parameters_are_bit_identical_over_each_boundary(
    runs: dict[tuple[str, str], Trained], way: str
) -> None:
    elastic = runs[way, "elastic"]
    assert len(elastic.begins) == 3
    for step, digest in elastic.begins[1:]:
        assert digest == elastic.digests[step - 1]


@pytest.mark.skipif("in_order" not in WAYS, reason="another slice sums gradients in one order")
def test_losses_and_parameters_are_bit_identical_where_gradients_are_summed_in_one_order(
    runs: dict[tuple[str, str], Trained],
) -> None:
    fixed, elastic = runs["in_order", "fixed"], runs["in_order", "elastic"]
    assert elastic.losses == fixed.losses
    assert elastic.digests == fixed.digests
    assert elastic.parameters == fixed.parameters


@pytest.mark.skipif("ddp" not in WAYS, reason="another slice averages gradients by DDP")
def test_loss_curve_of_ddp_differs_by_the_order_of_sums_alone(
    runs: dict[tuple[str, str], Trained],
) -> None:
    """Up to the first boundary nothing differs; then sums of four or two do, in their last bits."""
    fixed, elastic = runs["ddp", "fixed"], runs["ddp", "elastic"]
    first = elastic.begins[1][0]
    assert elastic.losses[:first] == fixed.losses[:first]
    assert elastic.digests[:first] == fixed.digests[:first]
    losses = max(abs(a - b) for a, b in zip(fixed.losses, elastic.losses, strict=True))
    values = max(abs(a - b) for a, b in zip(fixed.parameters, elastic.parameters, strict=True))
    print(f"largest difference of a loss {losses:.2g}, of a parameter at the end {values:.2g}")
    assert losses <= 1e-4
    assert values <= 1e-3
    assert fixed.losses[-1] < fixed.losses[0] / 4
