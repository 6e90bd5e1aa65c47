"""The process in which a daemon has something simulated: a question in, an answer out, its end.

It is killed with the daemon, and by its own clock where the daemon does not do it in time.
"""

import asyncio
import signal
import sys
from collections.abc import Iterable

import msgspec

from shunter.ask.forks.counterfactual_starts import starts_if
from shunter.ask.forks.forecast_process import (
    Found,
    Problem,
    Question,
    StartsIf,
    Tried,
    die_with_parent,
)
from shunter.ask.forks.forecasts import answer
from shunter.ask.why import explain
from shunter.errors import ShunterError
from shunter.events.log import read_log
from shunter.run import rebuild


def main(words: Iterable[str]) -> None:
    """Read a question on stdin, and write what comes of it on stdout."""
    limit_s, parent = map(int, words)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # meant for the daemon, which ends this process
    if not die_with_parent(parent):
        return
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question | StartsIf)
    told: Found | Tried | Problem
    try:
        told = asyncio.run(_answered(question))
    except ShunterError as error:
        told = Problem(str(error))
    sys.stdout.buffer.write(msgspec.json.encode(told))
    sys.stdout.buffer.flush()


async def _answered(question: Question | StartsIf) -> Found | Tried:
    if isinstance(question, Question):
        return Found(await answer(question))
    async with read_log(question.address) as reader:
        found = await explain(reader, question.job_id, question.seq, question.at_us, rebuild)
        return Tried(await starts_if(reader, found, rebuild))
