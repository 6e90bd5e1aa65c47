"""The log of every policy of the tree: the same bytes under any hash seed, and decided again."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from shunter.ask import verify_log
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.factories import needs_highs
from tests.replay.truth.mixed_runs import POLICIES, simulated, simulated_once

ROOT = Path(__file__).resolve().parents[3]
PRINT = """
import json
from tests.replay.truth.test_hash_seeds import verified_digests
print(json.dumps(verified_digests()))
"""


async def digest(url: str, *, verifies: bool = False) -> str:
    """Return the digest of a log; verify it, if that is asked for."""
    async with read_log(url) as reader:
        if verifies:
            verdict = await verify_log(reader, rebuild)
            assert verdict.divergence is None, verdict.divergence.lines()
        return (await reader.head()).chain.hex()


def verified_digests() -> dict[str, str]:
    """Return the digest of the log of each policy, made here and verified."""
    with TemporaryDirectory() as folder:
        urls = {name: simulated(name, Path(folder)) for name in POLICIES}
        return {name: asyncio.run(digest(url, verifies=True)) for name, url in urls.items()}


@needs_highs
def test_every_policy_writes_and_verifies_the_same_log_under_any_hash_seed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Method: the logs that other tests of this run read, and a process under a seed of its own."""
    urls = {name: simulated_once(name, tmp_path_factory) for name in POLICIES}
    own_seed = os.environ.get("PYTHONHASHSEED", "random")

    done = subprocess.run(
        [sys.executable, "-c", PRINT],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1" if own_seed == "2" else "2"},
    )

    here = {name: asyncio.run(digest(url)) for name, url in urls.items()}
    assert json.loads(done.stdout) == here, f"the hash seed of this process is {own_seed}"
