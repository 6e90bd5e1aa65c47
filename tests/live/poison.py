"""What a job may say that no scheduler should take: each line was, or could have been, its end."""

import sys

from shunter.daemon import Submission
from shunter.events import JobSpec

WRONG = (
    '{"what": "saved", "checkpoint": "x", "step": 99999999999999999999999999}',
    '{"what": "saved", "checkpoint": "x", "step": "x"}',
    '{"what": "saved", "checkpoint": "x", "step": [1]}',
    '{"what": "saved", "checkpoint": "x", "step": true}',
    '{"what": "saved", "checkpoint": "x", "step": 1.5}',
    '{"what": "saved", "checkpoint": "x", "step": -1}',
    '{"what": "saved", "checkpoint": "x", "bytes": 18446744073709551616}',
    '{"what": "saved", "checkpoint": "\\ud800"}',
    '{"what": "saved", "checkpoint": {"a": 1}}',
    '{"what": "failed", "error": 7}',
    '{"what": "progress", "rank": 0, "step": 99999999999999999999999999}',
    '{"what": "progress", "rank": 0, "step": 1, "batch_s": NaN}',
    '{"what": "progress", "rank": 0, "step": 1, "batch_s": 1e308}',
    '{"what": "progress", "rank": "0", "step": 1}',
    '{"what": "sesame"}',
    '{"what": ["saved"]}',
    "[1]",
    "null",
    "no JSON at all",
    "[" * 4000,
    '{"what": "saved", "step": ' + "9" * 4000 + "}",
    '{"what": "saved", "checkpoint": "' + "x" * 60_000 + '"}',
)
SAYS = """
import os, sys, time
channel = os.open(os.environ["SHUNTER_CHANNEL"], os.O_WRONLY)
def say(line):
    os.write(channel, line.encode() + b"\\n")
{what}
print("said", flush=True)
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
sys.exit(75)
"""
GOOD = '{"what": "saved", "checkpoint": "after it all", "step": 7, "bytes": 8}'


def saying(what: str) -> Submission:
    """Return a job that says something, and waits until it is asked to leave."""
    return Submission(JobSpec(command=(sys.executable, "-I", "-S", "-c", SAYS.format(what=what))))


def saying_all(*lines: str) -> Submission:
    """Return a job that says some lines."""
    return saying(f"for line in {lines!r}: say(line)")
