"""The log of every policy of the tree: the same bytes under any hash seed, and decided again."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from shunter.ask import verify_log
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.factories import needs_highs
from tests.replay.truth.mixed_runs import POLICIES, simulated

ROOT = Path(__file__).resolve().parents[3]
PRINT = """
import json
from tests.replay.truth.test_hash_seeds import digests
print(json.dumps(digests(%s)))
"""


def digests(*, verifies: bool = False) -> dict[str, str]:
    """Return the digest of the log of each policy; verify each of them, if that is asked for."""

    async def read(url: str) -> str:
        async with read_log(url) as reader:
            if verifies:
                verdict = await verify_log(reader, rebuild)
                assert verdict.divergence is None, verdict.divergence.lines()
            return (await reader.head()).chain.hex()

    with TemporaryDirectory() as folder:
        return {name: asyncio.run(read(simulated(name, Path(folder)))) for name in POLICIES}


def printed(hash_seed: int, arguments: str = "") -> dict[str, str]:
    """Return the digests that a process under a hash seed finds."""
    done = subprocess.run(
        [sys.executable, "-c", PRINT % arguments],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@needs_highs
def test_every_policy_writes_and_verifies_the_same_log_under_any_hash_seed() -> None:
    first = printed(1)

    assert sorted(first) == sorted(POLICIES)
    assert printed(2, "verifies=True") == first
