"""Names in a trace become keyed hashes: the same name the same hash, and none without the key.

A hash without a key would hide nothing: whoever knows the users of a site could try them all.
Ids of jobs, sizes and instants stay as they are.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from typing import Final

from shunter.errors import TraceError
from shunter.events.values.ids import QueueName, UserName
from shunter.events.values.job_spec import JobSpec
from shunter.workloads.trace import Trace, TraceJob

KEY_BYTES_LEAST: Final = 16
_HASH_BYTES: Final = 8


def anonymised(trace: Trace, key: bytes, *, with_queues: bool) -> Trace:
    """Return a trace in which users and names of jobs are hashes.

    Args:
        trace: the trace, which is left as it is.
        key: secret bytes; traces made under the same key have the same hashes.
        with_queues: whether queues are hashes too; they are the names of accounts, say.
    Raises:
        TraceError: the key is too short to keep anybody from trying names.
    """
    if len(key) < KEY_BYTES_LEAST:
        raise TraceError(
            f"the key has {len(key)} bytes: expected {KEY_BYTES_LEAST} or more, such as those of "
            "`head -c 32 /dev/urandom`"
        )
    hashed = _hashing(blake2b(key).digest())

    @cache
    def spec_of(spec: JobSpec) -> JobSpec:
        return replace(
            spec,
            user=UserName(hashed("user", spec.user)),
            queue=QueueName(hashed("queue", spec.queue)) if with_queues else spec.queue,
            name=hashed("job", spec.name),
            command=(),
            directory="",
        )

    jobs = tuple(
        TraceJob(job.job_id, job.submit_us, spec_of(job.spec), job.duration_us, job.ends)
        for job in trace.jobs
    )
    return replace(trace, jobs=jobs)


def _hashing(key: bytes) -> Callable[[str, str], str]:
    def hashed(kind: str, name: str) -> str:
        if not name:
            return ""
        # The kind counts, so that a job that is called like a user is not told to be.
        content = f"{kind}\0{name}".encode("utf-8", errors="surrogateescape")
        return f"{kind}-{blake2b(content, key=key, digest_size=_HASH_BYTES).hexdigest()}"

    return hashed
