"""Schedulers of others: the view they look into, and the gangs that they propose.

A proposal is answered once the verdict is in the log, durable, and the launch is on its way. One
that is rejected again within a round leaves no fact of its own; its answer is looked up anew.
"""

from collections.abc import Sequence

from starlette.responses import Response

from shunter import clock
from shunter.api.models.proposal_documents import ProposalBody
from shunter.api.routing import Call, NoBody, NoQuery, json_answer
from shunter.core.planning.approver import Refused, looked_at
from shunter.daemon.site import Site
from shunter.events.facts import Event, GangApproved, GangProposed, GangRejected
from shunter.events.values import CALLER, Allocation, JobId, Reason

AGAIN = "it could be granted by now: propose again"


async def view(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the free GPUs of every server, and who may be proposed."""
    seq, body = call.services.view_now()
    await call.services.durable(seq)
    return Response(body, media_type="application/json")


async def propose(call: Call[NoQuery, ProposalBody]) -> Response:
    """Grant a gang whole, or reject it and say by which GPUs."""
    services, body, by = call.services, call.body, call.caller
    site = services.site
    site.commands.check_proposer(by)
    services.proposal_rate.take(by.user, clock.monotonic_s())
    job_id = JobId(body.job_id)
    candidates = site.commands.candidates(job_id, body.version, body.candidates, by)
    receipt = await site.tell(site.commands.propose(job_id, body.version, candidates, by))
    verdict = _verdict(receipt.events, candidates, by.user)
    if verdict is None:
        site.commands.candidates(job_id, body.version, body.candidates, by)  # has it ended?
        answer = _looked_up(site, job_id, candidates)
    elif isinstance(verdict, GangApproved):
        answer = _answer(verdict.version, choice=verdict.choice)
    else:
        refused = Refused(verdict.reason, verdict.detail, verdict.conflicts)
        answer = _answer(verdict.version, refused=refused)
    last = site.state.proposals.rejections.get(job_id)
    retry_us = None if last is None or answer["approved"] else last.retry_us
    wait_s = None if retry_us is None else max(0, retry_us - site.now_us()) / 1e6
    about = {"schema_version": 1, "job_id": job_id, "retry_after_s": wait_s, "seq": site.committed}
    return json_answer({**answer, **about})


def _looked_up(site: Site, job_id: JobId, candidates: tuple[Allocation, ...]) -> dict[str, object]:
    """Return the answer to a proposal that was rejected again, and left no fact."""
    state = site.state
    proposed = GangProposed(state.now_us, job_id, state.seq, candidates, CALLER)
    found = looked_at(proposed, state, site.rules)
    if not isinstance(found, Refused):
        found = Refused(Reason.waiting_for_round, AGAIN)
    return _answer(state.seq, refused=found)


def _verdict(
    events: Sequence[Event], candidates: tuple[Allocation, ...], user: str
) -> GangApproved | GangRejected | None:
    """Return what follows the proposal in the facts of its step; None: no fact does.

    Who proposes the same twice in one step has proposed it once.
    """
    for number, event in enumerate(events):
        if isinstance(event, GangProposed) and (event.candidates, event.by) == (candidates, user):
            then = events[number + 1]
            assert isinstance(then, GangApproved | GangRejected), "an answer follows at once"
            return then
    return None


def _answer(
    version: int, *, choice: int | None = None, refused: Refused | None = None
) -> dict[str, object]:
    return {
        "approved": refused is None,
        "choice": choice,
        "version": version,
        "reason": "" if refused is None else refused.reason.value,
        "detail": "" if refused is None else refused.detail,
        "conflicts": {} if refused is None else dict(refused.conflicts),
    }
