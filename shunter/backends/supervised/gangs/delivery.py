"""What is to be done with a gang, asked of the agents of its parts until they have taken it."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

import anyio

from shunter.backends.agents.answers import Fenced, ReshapeAnswer
from shunter.backends.agents.messages import Fence as FenceQuestion
from shunter.backends.agents.messages import Reshape, Send, SetAside
from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.agents.orders import Command, Do, Shares
from shunter.backends.agents.transport import UnreachedError
from shunter.backends.supervised.gangs.gang import NEVER, Gang, Part, PartTurns
from shunter.backends.supervised.shares import shares_kept
from shunter.errors import BackendError
from shunter.events.facts.execution import ReshapeRefused
from shunter.events.values.ids import NodeName


async def deliver(
    gang: Gang, agents: Mapping[NodeName, NodeAgent], tell: Callable[[Gang, ReshapeRefused], None]
) -> None:
    """Give what is due to the parts whose agents answer; what nobody takes waits.

    That a part keeps other shares than it was to have is told, but for the instant.
    """
    try:
        await _let_go(gang, agents)
        for name, order in gang.due().items():
            agent, part = agents[name], gang.parts[name]
            if not agent.is_up:
                continue
            if order == "fence":
                await _fence(gang, part, agent)
            else:
                await _send(gang, part, agent, cast(Do, order))
            agent.look(gang.watch.job_id, gang.watch.attempt)
        for name, shares in gang.shares_due().items():
            if agents[name].is_up:
                await _reshape(gang, gang.parts[name], agents[name], shares, tell)
        for name, turns in gang.turns_due().items():
            if agents[name].is_up:
                await _reslice(gang, gang.parts[name], agents[name], turns)
    except BackendError:
        return  # the next look, or the return of the agent, gives it again
    finally:
        gang.is_delivering = False


async def _let_go(gang: Gang, agents: Mapping[NodeName, NodeAgent]) -> None:
    """Let ranks run, now that all parts have started.

    All are told at once, so that none runs for long alone, and none as long as the agent of one
    is known not to answer. A part that does not hear of it waits until its agent answers, or is
    lost with the others.
    """
    due = gang.goes_due()
    if not all(agents[name].is_up for name in due):
        return

    async def tell(name: NodeName) -> None:
        with suppress(BackendError):
            await _send(gang, gang.parts[name], agents[name], "go")
            agents[name].look(gang.watch.job_id, gang.watch.attempt)

    async with anyio.create_task_group() as tasks:
        for name in due:
            tasks.start_soon(tell, name)


async def end_unbelieved(gang: Gang, agents: Mapping[NodeName, NodeAgent], every_s: float) -> None:
    """End a gang that was set aside, and return once nothing of it runs anywhere."""
    job_id, attempt = gang.watch.job_id, gang.watch.attempt
    waits = list(gang.parts)
    while waits:
        for name in list(waits):
            agent = agents[name]
            is_over = agent.is_lost
            if agent.is_up:
                with suppress(BackendError):
                    answer = await agent.ask(SetAside(job=job_id, attempt=attempt))
                    is_over = answer.is_over
            if is_over:
                waits.remove(name)
        await anyio.sleep(every_s if waits else 0)


async def _fence(gang: Gang, part: Part, agent: NodeAgent) -> None:
    watch = gang.watch

    def on_reply(answer: Fenced) -> None:
        mine = [record for record in answer.fenced if record.attempt == watch.attempt]
        part.learn(agent.localised(mine[0]) if mine else NEVER)

    question = FenceQuestion(job=watch.job_id, attempt=watch.attempt)
    await agent.ask(question, on_reply=on_reply)
    part.ordered = "fence"


async def _reshape(
    gang: Gang,
    part: Part,
    agent: NodeAgent,
    shares: Shares,
    tell: Callable[[Gang, ReshapeRefused], None],
) -> None:
    job_id, attempt = gang.watch.job_id, gang.watch.attempt
    answer: ReshapeAnswer | None = None
    try:
        answer = await agent.ask(Reshape(job=job_id, attempt=attempt, shares=shares))
        cause = answer.cause
    except UnreachedError:
        raise
    except BackendError as error:
        cause = str(error)
    part.shares = shares
    if not cause:
        part.has = shares
    if gang.shares.get(agent.name) != shares:  # it was to have others meanwhile, and is asked again
        agent.look(job_id, attempt)
    elif cause:
        wanted = tuple([each for each in gang.given.shares if each.node in agent.nodes])
        kept = shares_kept(wanted, part.has, answer)
        tell(gang, ReshapeRefused(0, job_id, attempt, wanted, kept, cause))


async def _reslice(gang: Gang, part: Part, agent: NodeAgent, turns: PartTurns) -> None:
    watch = gang.watch
    command = Command(
        do="slice",
        weight=turns.weight,
        mask=turns.home,
        pack=turns.pack,
        timetable=turns.timetable,
    )
    question = Send(job=watch.job_id, attempt=watch.attempt, order=command)
    if (await agent.ask(question)).taken:
        part.turns = turns
        agent.look(watch.job_id, watch.attempt)  # it may be to have others meanwhile


async def _send(gang: Gang, part: Part, agent: NodeAgent, order: Do) -> None:
    watch = gang.watch
    command = Send(job=watch.job_id, attempt=watch.attempt, order=Command(do=order))
    if (await agent.ask(command)).taken:
        part.take(order)
