"""A gang told of as one attempt: when it has started, what ends it, and how it ended."""

from collections.abc import Mapping
from typing import cast

import pytest

from shunter.backends.live import (
    Gang,
    Inbox,
    NodeAgent,
    Part,
    PartTurns,
    Watch,
    deliver,
    merged,
    told_of,
)
from shunter.backends.node import Known, Note, Send, SendAnswer, Shares, Status
from shunter.core import Terminate
from shunter.events import (
    Allocation,
    AttemptStarted,
    CheckpointSaved,
    GpusReleased,
    JobSuspended,
    NodeName,
    Share,
    Sharing,
    TrainingStarted,
    TurnEnded,
    TurnStarted,
)
from tests.factories import job_id
from tests.unit.backends.node.orders import known_of, started_of, status_of


def record(state: str = "running", **status: object) -> Known:
    """Return what an agent tells of its part."""
    started = None if state in ("absent", "starting") else started_of(ranks=[{"cpus": []}])
    ended = status_of(**{"ended_ns": 10, **status}) if state == "ended" else None
    return known_of(state, started=started, status=ended)


def gang(*records: Known | None) -> Gang:
    parts = {NodeName(f"n{number}"): Part(known) for number, known in enumerate(records)}
    return Gang(Watch(job_id(0), 1), parts)


def end_of(*records: Known) -> Status:
    """Return how a gang of such parts ended."""
    status = merged(gang(*records)).status
    assert status is not None
    return status


def test_ranks_may_run_once_all_parts_have_started_and_the_start_is_told_after_that() -> None:
    inbox, apart = Inbox(), gang(record(), record("starting"))
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
    apart = gang(record(), record())
    apart.ask(Terminate(job_id(0), 1))
    assert apart.goes_due() == []
    assert gang(record()).goes_due() == []  # on one server nobody waits


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

    both = gang(record(), record())
    there = {name: Agent(name, is_up=name == "n0") for name in both.parts}
    agents = cast("Mapping[NodeName, NodeAgent]", there)
    await deliver(both, agents, lambda *_: None)
    assert asked == []
    there[NodeName("n1")].is_up = True
    await deliver(both, agents, lambda *_: None)
    assert sorted(asked) == ["n0 go", "n1 go"]
    assert both.goes_due() == []


def test_gang_has_started_once_all_its_parts_have() -> None:
    assert merged(gang(record(), record("starting"))).started is None
    assert merged(gang(record(), None)).started is None
    started = merged(gang(record(), record())).started
    assert started is not None
    assert len(started.ranks) == 2


def test_gang_is_over_once_all_its_parts_are() -> None:
    assert merged(gang(record("ended"), record())).state == "running"
    assert merged(gang(record("ended"), record("ended"))).state == "ended"
    assert merged(gang(record("ended"), record("lost"))).state == "lost"


@pytest.mark.parametrize(
    ("status", "order"),
    [
        ({"code": 0}, None),
        ({"code": 3}, "terminate"),
        ({"code": 75, "suspended": True, "saved": True}, "suspend"),
        ({"code": 137, "why": "fence"}, "fence"),
        ({"code": 137, "why": "heartbeat"}, "fence"),
        ({"code": 143, "why": "terminate"}, "terminate"),
    ],
)
def test_end_of_one_part_is_passed_on_to_the_others(
    status: dict[str, object], order: str | None
) -> None:
    due = gang(record("ended", **status), record()).due()
    assert due == ({} if order is None else {"n1": order})


@pytest.mark.parametrize("state", ["lost", "absent"])
def test_part_that_is_gone_fences_the_others(state: str) -> None:
    due = gang(record(state), record()).due()
    assert due[NodeName("n1")] == "fence"
    assert (NodeName("n0") in due) == (state == "absent")


def test_part_whose_start_is_under_way_is_not_missed() -> None:
    one = gang(record("absent"), record())
    one.parts[NodeName("n0")].is_starting = True
    assert one.due() == {}


def test_part_that_is_unknown_ends_nobody() -> None:
    assert gang(None, record()).due() == {}


def test_stronger_order_is_given_after_a_weaker_one_and_none_twice() -> None:
    one = gang(record(), record())
    one.asked = "suspend"
    assert set(one.due().values()) == {"suspend"}
    for part in one.parts.values():
        part.ordered = "suspend"
    assert one.due() == {}
    one.asked = "terminate"
    assert set(one.due().values()) == {"terminate"}


def test_parts_stop_and_continue_as_last_asked_unless_they_must_leave() -> None:
    both = gang(record(), record())
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
    both = gang(record(), record("starting"))
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


def test_first_failure_is_the_code_of_the_gang() -> None:
    first = record("ended", code=3, ended_ns=20)
    ended = record("ended", code=143, why="terminate", ended_ns=30)
    status = end_of(ended, first)
    assert (status.code, status.suspended, status.ended_ns) == (3, False, 30)


def test_gang_is_suspended_if_no_part_failed_and_saved_if_all_have() -> None:
    saved = record("ended", code=75, suspended=True, saved=True, why="suspend")
    stopped = record("ended", code=143, suspended=True, saved=False, why="suspend")
    done = record("ended", code=0)
    assert end_of(saved, done).saved is True
    assert end_of(saved, stopped).saved is False
    assert end_of(saved, stopped).suspended is True


def test_gang_of_which_a_part_was_fenced_has_not_ended_by_itself() -> None:
    fenced = record("ended", code=137, why="heartbeat")
    assert end_of(record("ended", code=0), fenced).why == "heartbeat"


def test_absent_part_is_over_once_it_is_fenced_or_refused() -> None:
    parts = [
        Part(record("absent")),
        Part(record("absent"), ordered="fence"),
        Part(record("absent"), is_refused=True),
    ]
    assert [part.is_over for part in parts] == [False, True, True]


def test_what_one_part_says_is_told_after_all_have_started() -> None:
    """One trains and has saved, while the other is about to start: both facts wait, in order."""
    notes = (
        Note(what="training", n=1, at_ns=1),
        Note(what="saved", n=2, at_ns=2, checkpoint="c", step=4, bytes=5),
    )
    both, inbox = gang(None, None), Inbox()
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
    both = gang(None, None)
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


LEFT = {"code": 75, "suspended": True, "saved": True}


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
    one = gang(record("ended", **LEFT).replaced(cause=cause))
    one.asked, one.watch.told_start = asked, True
    facts = [stamped(7) for stamped in told_of(one, Inbox(), drain)]
    assert facts == [
        JobSuspended(7, job_id(0), 1, cause=told),
        GpusReleased(7, job_id(0), 1),
    ]


def test_turns_are_given_anew_until_a_supervisor_has_taken_them() -> None:
    sliced = gang(record())
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
