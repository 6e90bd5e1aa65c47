"""What `why` and the history say of an attempt that somebody else than the scheduler ended."""

import asyncio
from dataclasses import replace

from shunter.app.api.documents.job_history import history_of
from shunter.app.replaying.why.sentences import how_ended
from shunter.core.intake.inputs import Input, SubmitJob
from shunter.events.facts.execution import AttemptStarted, GpusReleased, JobSuspended
from tests.factories import World, job_id, job_spec, policy, servers
from tests.replay.recording import Recorded, asked, rebuilt

J0 = job_id(0)
CAUSE = "Slurm's time limit of 1 h ended it"


def test_attempt_that_slurm_ended_is_told_with_its_cause() -> None:
    chosen = policy()
    core, events = World(servers=servers(4), is_live=True, round_us=10).scheduler(
        chosen, instant=False
    )
    steps: list[list[Input]] = [
        [SubmitJob(0, J0, job_spec(4))],
        [AttemptStarted(0, J0, 1)],
        [JobSuspended(0, J0, 1, cause=CAUSE), GpusReleased(0, J0, 1)],
        [],
    ]
    for number, inputs in enumerate(steps):
        at_us = 10 * number
        events += core.step(at_us, [replace(one, at_us=at_us) for one in inputs])[0]
    recorded = Recorded(list(events), rebuilt(chosen, core.rules))
    found = asyncio.run(asked(recorded, J0, None))
    assert [how_ended(found, run) for run in found.runs] == [f"suspended: {CAUSE}"]
    history = history_of([event for event in events if getattr(event, "job_id", "") == J0])
    assert history is not None
    assert history.attempts[0].document(str)["ended_by"] == f"suspended: {CAUSE}"
