"""A gang told of as one attempt: when it has started, what ends it, and how it ended."""

from collections.abc import Mapping
from typing import cast

import pytest

from shunter.backends.live import (
    Gang,
    Inbox,
    Limits,
    NodeAgent,
    Owner,
    Part,
    PartTurns,
    SupervisedBackend,
    Watch,
    deliver,
    merged,
    told_of,
)
from shunter.backends.node import Known, Note, Send, SendAnswer, Shares
from shunter.core import Input, Launch, Terminate
from shunter.events import (
    Allocation,
    AttemptStarted,
    CheckpointSaved,
    GpusReleased,
    JobSuspended,
    NodeName,
    NodeReachable,
    NodeUnreachable,
    Share,
    Sharing,
    TrainingStarted,
    TurnEnded,
    TurnStarted,
)
from tests.doubles.simulated_nodes import (
    SimulatedNode,
    SimulatedProgram,
    SimulatedServer,
    SimulatedTransport,
)
from tests.doubles.virtual_clock import VirtualClock
from tests.factories import allocation, job_id, job_spec
from tests.unit.backends.node.orders import known_of, started_of, status_of

WHYS = ("suspend", "terminate", "fence", "heartbeat")


def record(told: str = "running") -> Known:
    """Return what an agent tells of its part: `ended 75 suspend, suspended, saved at 30`, say."""
    state, *words = told.replace(",", "").split()
    if state != "ended":
        started = None if state in ("absent", "starting") else started_of(ranks=[{"cpus": []}])
        return known_of(state, started=started)
    why = next((word for word in words if word in WHYS), "")
    at_ns = int(words[-1]) if "at" in words else 10
    fields = {name: name in words for name in ("suspended", "saved")}
    status = status_of(code=int(words[0]), why=why, ended_ns=at_ns, **fields)
    return known_of(state, started=started_of(ranks=[{"cpus": []}]), status=status)


def gang(told: str) -> Gang:
    """Return a gang by what is told of its parts; of `unknown` ones nothing is."""
    records = [None if each == "unknown" else record(each) for each in told.split(" | ")]
    parts = {NodeName(f"n{number}"): Part(known) for number, known in enumerate(records)}
    return Gang(Watch(job_id(0), 1), parts)


@pytest.mark.parametrize(
    ("told", "whole", "orders"),
    [
        ("running | starting", "running but not all of it", ""),
        ("running | unknown", "running but not all of it", ""),
        ("running | running", "running", ""),
        ("ended 0 | running", "running", ""),
        ("ended 3 | running", "running", "n1 terminate"),
        ("ended 75 suspended saved | running", "running", "n1 suspend"),
        ("ended 137 fence | running", "running", "n1 fence"),
        ("ended 137 heartbeat | running", "running", "n1 fence"),
        ("ended 143 terminate | running", "running", "n1 terminate"),
        ("lost | running", "running", "n1 fence"),
        ("absent | running", "running but not all of it", "n0 fence, n1 fence"),
        ("ended 0 | lost", "lost", ""),
        ("ended 0 | ended 0", "ended 0", ""),
        ("ended 143 terminate at 30 | ended 3 at 20", "ended 3 at 30", ""),  # the first failure
        ("ended 0 | ended 75 suspend suspended saved", "ended 75 suspend suspended saved", ""),
        (
            "ended 75 suspend suspended saved | ended 143 suspend suspended",
            "ended 75 suspend suspended",
            "",
        ),
        ("ended 143 terminate | ended 137 heartbeat at 30", "ended 137 heartbeat at 30", ""),
    ],
)
def test_gang_is_what_its_parts_are_and_the_end_of_one_is_passed_on(
    told: str, whole: str, orders: str
) -> None:
    one, expected = gang(told), record(whole)
    found = merged(one)
    assert ", ".join(f"{node} {order}" for node, order in one.due().items()) == orders
    assert found.state == expected.state
    assert (found.started is None) is ("not all" in whole)
    assert found.started is None or len(found.started.ranks) == len(one.parts)
    if expected.status is not None:
        assert found.status is not None
        names = ("code", "suspended", "saved", "why", "ended_ns")
        assert [found.status[name] for name in names] == [expected.status[n] for n in names]


def test_ranks_may_run_once_all_parts_have_started_and_the_start_is_told_after_that() -> None:
    inbox, apart = Inbox(), gang("running | starting")
    assert apart.goes_due() == []
    apart.parts[NodeName("n1")].learn(record())
    assert apart.goes_due() == ["n0", "n1"]
    apart.parts[NodeName("n0")].take("go")
    assert apart.goes_due() == ["n1"]
    assert list(told_of(apart, inbox)) == []
    apart.parts[NodeName("n1")].take("go")
    assert apart.goes_due() == []
    assert [type(fact(0)) for fact in told_of(apart, inbox)] == [AttemptStarted]


def test_ranks_of_a_gang_that_is_to_leave_may_run_no_more() -> None:
    apart = gang("running | running")
    apart.ask(Terminate(job_id(0), 1))
    assert apart.goes_due() == []
    assert gang("running").goes_due() == []  # on one server nobody waits


@pytest.mark.asyncio
async def test_no_rank_may_run_while_the_agent_of_another_is_known_not_to_answer() -> None:
    asked = list[str]()

    class Agent:
        def __init__(self, name: str, *, is_up: bool) -> None:
            self.name, self.is_up = name, is_up

        async def ask(self, question: Send) -> SendAnswer:
            asked.append(f"{self.name} {question.order.do}")
            return SendAnswer(now_ns=0, up_ns=0, taken=True)

        def look(self, job: str, attempt: int) -> None:
            """Look at it soon."""

    both = gang("running | running")
    there = {name: Agent(name, is_up=name == "n0") for name in both.parts}
    agents = cast("Mapping[NodeName, NodeAgent]", there)
    await deliver(both, agents, lambda *_: None)
    assert asked == []
    there[NodeName("n1")].is_up = True
    await deliver(both, agents, lambda *_: None)
    assert sorted(asked) == ["n0 go", "n1 go"]
    assert both.goes_due() == []


def test_part_whose_start_is_under_way_is_not_missed() -> None:
    one = gang("absent | running")
    one.parts[NodeName("n0")].is_starting = True
    assert one.due() == {}


def test_stronger_order_is_given_after_a_weaker_one_and_none_twice() -> None:
    one = gang("running | running")
    one.asked = "suspend"
    assert set(one.due().values()) == {"suspend"}
    for part in one.parts.values():
        part.ordered = "suspend"
    assert one.due() == {}
    one.asked = "terminate"
    assert set(one.due().values()) == {"terminate"}


def test_parts_stop_and_continue_as_last_asked_unless_they_must_leave() -> None:
    both = gang("running | running")
    both.stance = "stop"
    assert set(both.due().values()) == {"stop"}
    for part in both.parts.values():
        part.take("stop")
    assert both.due() == {}
    both.stance = "continue"
    assert set(both.due().values()) == {"continue"}
    both.asked = "suspend"
    assert set(both.due().values()) == {"suspend"}


def test_part_is_held_to_its_shares_once_it_runs_and_while_it_may_stay() -> None:
    few, many = (Shares(cpus_milli=each, memory_mb=1, cpus=(0,)) for each in (500, 900))
    both = gang("running | starting")
    first, second = both.parts
    both.shares = {first: few, second: few}
    assert both.shares_due() == {first: few}
    both.parts[first].shares = few
    both.parts[second].learn(record())
    assert both.shares_due() == {second: few}
    both.shares = {first: many}
    assert both.shares_due() == {first: many}
    both.asked = "suspend"
    assert both.shares_due() == {}


def test_absent_part_is_over_once_it_is_fenced_or_refused() -> None:
    parts = [
        Part(record("absent")),
        Part(record("absent"), ordered="fence"),
        Part(record("absent"), is_refused=True),
    ]
    assert [part.is_over for part in parts] == [False, True, True]
    for other, state in (("absent", "absent"), ("lost", "lost")):
        one = gang(f"absent | {other}")
        for part in one.parts.values():
            part.ordered = "fence"
        assert merged(one).state == state


def test_what_one_part_says_is_told_after_all_have_started() -> None:
    """One trains and has saved, while the other is about to start: both facts wait, in order."""
    notes = (
        Note(what="training", n=1, at_ns=1),
        Note(what="saved", n=2, at_ns=2, checkpoint="c", step=4, bytes=5),
    )
    both, inbox = gang("unknown | unknown"), Inbox()
    first, second = both.parts.values()
    first.learn(record().replaced(notes=notes))
    second.learn(record("starting"))
    assert list(told_of(both, inbox)) == []
    assert first.reading.durable == 0
    second.learn(record())
    assert list(told_of(both, inbox)) == []  # nor does any rank run yet
    first.take("go")
    second.take("go")
    told = [type(stamped(7)) for stamped in told_of(both, inbox)]
    assert told == [AttemptStarted, TrainingStarted, CheckpointSaved]


def turning(**noted: int) -> tuple[Gang, Part, Part]:
    """Return a gang on two servers that takes turns, of which a term has told some facts."""
    both = gang("unknown | unknown")
    both.watch.told_start = True
    shares = tuple(Share(name, 1) for name in both.parts)
    both.watch.planned = Allocation(shares, Sharing.sliced)
    for name, part in both.parts.items():
        part.nodes = (name,)
    both.skip({NodeName(name): count for name, count in noted.items()})
    first, second = both.parts.values()
    return both, first, second


def turns(*instants: int, after: int = 0) -> Known:
    """Return what a server tells of turns that begin and end at instants, in nanoseconds."""
    whats = ("turn_started", "turn_ended")
    notes = [
        Note(what=whats[number % 2], n=number + 1, at_ns=at_ns, mask=1)
        for number, at_ns in enumerate(instants)
    ]
    return record().replaced(notes=tuple(notes[after:]), facts=after)


def changes(both: Gang) -> list[str]:
    """Return what is told of a gang's turns: where, and what."""
    told = [stamped(10**15) for stamped in told_of(both, Inbox(start_us=50))]
    return [
        f"{each.shares[0].node} has it"
        if isinstance(each, TurnStarted)
        else f"{each.nodes[0]} had it"
        for each in told
        if isinstance(each, TurnStarted | TurnEnded)
    ]


@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_what_was_told_of_one_server_is_not_counted_for_another(dropped: int) -> None:
    """The log has all of the first one's turns, and of the second one's only the first start."""
    both, first, second = turning(n0=3, n1=1)
    first.learn(turns(10, 30, 50, after=dropped))
    assert changes(both) == [], "of the other one nothing is known yet"
    second.learn(turns(12, 28, 52))
    assert changes(both) == ["n1 had it", "n1 has it"]


def test_news_of_a_gang_waits_for_a_server_that_is_cut_off() -> None:
    both, first, second = turning()
    first.learn(turns(10))
    second.learn(turns(12))
    assert changes(both) == ["n0 has it", "n1 has it"]
    second.is_cut_off = True
    first.learn(turns(10, 30, 50))
    assert changes(both) == []
    second.learn(turns(12, 28, 52))
    assert changes(both) == ["n1 had it", "n0 had it", "n0 has it", "n1 has it"]


def test_news_of_a_gang_does_not_wait_for_a_server_that_is_lost() -> None:
    both, first, second = turning()
    first.learn(turns(10))
    second.is_gone = True
    assert changes(both) == ["n0 has it"]


LEFT = "ended 75, suspended, saved"


@pytest.mark.parametrize(
    ("cause", "drain", "asked", "told"),
    [
        ("", "", "", ""),
        ("the limit", "", "", "the limit"),
        ("", "its pilot ends", "", "its pilot ends"),
        ("the limit", "its pilot ends", "suspend", ""),
    ],
)
def test_who_left_unasked_says_who_ended_it(cause: str, drain: str, asked: str, told: str) -> None:
    one = gang("unknown")
    one.parts[NodeName("n0")].learn(record(LEFT).replaced(cause=cause))
    one.asked, one.watch.told_start = asked, True
    facts = [stamped(7) for stamped in told_of(one, Inbox(), drain)]
    assert facts == [
        JobSuspended(7, job_id(0), 1, cause=told),
        GpusReleased(7, job_id(0), 1),
    ]


def test_turns_are_given_anew_until_a_supervisor_has_taken_them() -> None:
    sliced = gang("running")
    sliced.given = Allocation((Share(NodeName("n0"), 1),), Sharing.sliced)
    assert not sliced.turns_due(), "of its weight nothing is known yet"
    sliced.weight = 1.0
    assert sliced.turns_due() == {"n0": PartTurns(1.0, 1, "")}
    sliced.parts[NodeName("n0")].turns = PartTurns(1.0, 1, "")
    assert not sliced.is_owed
    sliced.weight = 2.0
    sliced.given = Allocation((Share(NodeName("n0"), 4),), Sharing.sliced)
    assert sliced.turns_due() == {"n0": PartTurns(2.0, 4, "")}
    sliced.ask(Terminate(job_id(0), 1))
    assert not sliced.turns_due(), "it is to leave"


def test_what_a_gang_saves_is_told_in_order_though_one_of_its_hosts_was_cut_off() -> None:
    """The other host saves each 10 s; of that nothing is told until both can be read again."""
    program = SimulatedProgram(work_us=10**9, checkpoint_us=10**7, tells=True)
    spec, found = job_spec(2, command=program.command), list[Input]()

    async def main() -> None:
        servers = [SimulatedServer(NodeName(name), ("0",)) for name in ("n0", "n1")]
        links = [SimulatedTransport(SimulatedNode(each)) for each in servers]
        limits = Limits(heartbeat_deadline_s=900.0, patrol_s=5.0, call_s=5.0)
        async with SupervisedBackend(limits, Owner("c0", 1, "h", "/simulated"), links) as backend:
            await backend.perform([Launch(job_id(0), 1, allocation(n0=1, n1=1), spec)], 0)
            for until_s, then in ((32, links[1].silence), (90, links[1].restore), (120, list)):
                now_us = 0
                while now_us < until_s * 1_000_000:
                    now_us, inputs = await backend.observe(until_s * 1_000_000)
                    found.extend(inputs)
                then()

    VirtualClock().run(main)
    seen = [type(each) for each in found]
    cut, back = seen.index(NodeUnreachable), seen.index(NodeReachable)
    assert CheckpointSaved in seen[:cut]
    assert CheckpointSaved not in seen[cut:back]
    steps = [each.step or 0 for each in found[back:] if isinstance(each, CheckpointSaved)]
    assert len(steps) > 10
    assert steps == sorted(steps)
