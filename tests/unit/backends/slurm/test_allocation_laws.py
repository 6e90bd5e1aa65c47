"""Laws of pilots: bounded, none twice, no flapping, renewed in time, released only when idle."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from shunter.backends.slurm import (
    AllocationLimits,
    AllocationView,
    Decisions,
    GpuRequest,
    Node,
    Phase,
    Pilot,
    Reservation,
    SlurmServer,
    SubmitRefusals,
    decide,
    least_s,
)
from shunter.events import NodeName
from tests.slices import searched

TYPES = ("a", "b", "c")
LIMITS = AllocationLimits(
    pilots_max=3,
    limit_s=4000.0,
    idle_s=200.0,
    drain_s=300.0,
    renew_s=1000.0,
    submits_max=2,
    backoff_s=10.0,
    backoff_s_max=100.0,
)


def server(name: str, gpu_type: str, gpus: int) -> SlurmServer:
    return SlurmServer(NodeName(name), tuple(map(str, range(gpus))), (), gpu_type, "", 0)


NODES = tuple(server(f"n{number}", TYPES[number % 3], 2 + number % 3) for number in range(6))

requests = st.builds(
    GpuRequest,
    st.integers(1, 9),
    st.one_of(
        st.just(frozenset[str]()), st.sampled_from(TYPES).map(lambda each: frozenset({each}))
    ),
    st.one_of(
        st.just(frozenset[str]()),
        st.sampled_from(NODES).map(lambda each: frozenset({each.name})),
    ),
)
demands = st.lists(requests, max_size=5).map(tuple)


@dataclass
class Slurm:
    """A Slurm that does as it is told, or as the test draws, and one scheduler before it."""

    now_s: float = 0.0
    pilots: dict[str, Pilot] = field(default_factory=dict)
    refusals: dict[NodeName, SubmitRefusals] = field(default_factory=dict)
    reservations: dict[NodeName, Reservation] = field(default_factory=dict)
    spare_since_s: dict[str, float] = field(default_factory=dict)
    number: int = 0

    def view(self, waiting: tuple[GpuRequest, ...]) -> AllocationView:
        return AllocationView(
            self.now_s,
            tuple(
                Node(
                    each,
                    reservation=self.reservations.get(each.name),
                    refusals=self.refusals.get(each.name),
                )
                for each in NODES
            ),
            tuple(map(dataclasses.replace, self.pilots.values())),
            waiting,
            spare_since_s=dict(self.spare_since_s),
        )

    def carry_out(self, decisions: Decisions, *, refuses: bool = False) -> None:
        self.spare_since_s = dict(decisions.spare_since_s)
        for name in decisions.releases:
            del self.pilots[name]
        for name, why in decisions.drains.items():
            self.pilots[name] = dataclasses.replace(self.pilots[name])
            self.pilots[name].begin_drain(why, self.now_s)
        for node, limit_s in decisions.submits.items():
            if refuses:
                before = self.refusals.get(node, SubmitRefusals(0, 0, ""))
                count = before.count + 1
                self.refusals[node] = SubmitRefusals(count, self.now_s, "no")
                continue
            self.refusals.pop(node, None)
            self.number += 1
            name = f"p{self.number:04}"
            self.pilots[name] = Pilot(name, node, self.now_s, limit_s, Phase.queued)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        for name, pilot in list(self.pilots.items()):
            if pilot.ends_at_s <= self.now_s:
                del self.pilots[name]

    def give(self, most: int) -> None:
        """Start pilots that wait for nodes that nobody holds."""
        for name, pilot in list(self.pilots.items())[:most]:
            taken = {each.node for each in self.pilots.values() if each.started_at_s is not None}
            if pilot.phase is Phase.queued and pilot.node not in taken:
                self.pilots[name] = dataclasses.replace(
                    pilot, phase=Phase.granted, started_at_s=self.now_s
                )

    def run_jobs(self, jobs: int) -> None:
        for name, pilot in self.pilots.items():
            if pilot.phase is Phase.granted:
                self.pilots[name] = dataclasses.replace(pilot, jobs=jobs, busy_gpus=jobs)
            elif pilot.phase is Phase.draining and not jobs:
                self.pilots[name] = dataclasses.replace(pilot, jobs=0, busy_gpus=0)


Script = list[tuple[tuple[GpuRequest, ...], float, int, int, bool]]
steps = st.lists(
    st.tuples(
        demands,
        st.sampled_from([0.0, 1.0, 30.0, 100.0, 250.0, 900.0, 3000.0]),
        st.integers(0, 4),  # how many pilots are given
        st.integers(0, 2),  # jobs in each that is held
        st.booleans(),  # whether Slurm refuses
    ),
    max_size=25,
)


reservations = st.dictionaries(
    st.sampled_from(NODES).map(lambda each: NodeName(each.name)),
    st.builds(
        lambda start_s, is_maintenance: Reservation("r", (), start_s, 10.0**9, is_maintenance),
        st.floats(0.0, 20_000.0),
        st.booleans(),
    ),
)


def played(
    script: Script, kept: dict[NodeName, Reservation] | None = None
) -> Iterator[tuple[Slurm, AllocationView, Decisions]]:
    slurm = Slurm(reservations=kept or {})
    for waiting, seconds, given_nodes, jobs, refuses in script:
        slurm.pass_time(seconds)
        slurm.give(given_nodes)
        slurm.run_jobs(jobs)
        view = slurm.view(waiting)
        decisions = decide(view, LIMITS)
        yield slurm, view, decisions
        slurm.carry_out(decisions, refuses=refuses)


def pilots_are_bounded_and_none_is_there_twice(view: AllocationView, decisions: Decisions) -> None:
    nodes = {pilot.node for pilot in view.pilots} | set(decisions.submits)
    assert len(nodes) <= LIMITS.pilots_max
    assert len(decisions.submits) <= LIMITS.submits_max
    waiting = [each.node for each in view.pilots if each.phase is Phase.queued]
    waiting += list(decisions.submits)
    assert len(waiting) == len(set(waiting))
    held = [each.node for each in view.pilots if each.phase is Phase.granted]
    assert len(held) == len(set(held))


def only_pilots_in_which_nothing_runs_are_released(
    view: AllocationView, decisions: Decisions
) -> None:
    jobs = {pilot.name: pilot.jobs for pilot in view.pilots}
    assert all(jobs[name] == 0 for name in decisions.releases)
    assert decisions.drains.keys() <= jobs.keys()


def pilot_that_is_needed_has_a_successor_in_time(
    view: AllocationView, decisions: Decisions
) -> None:
    asked = {each.node for each in view.pilots if each.phase is Phase.queued}
    asked |= set(decisions.submits)
    refused = {node.name for node in view.nodes if node.refusals}
    due = {
        pilot.node
        for pilot in view.pilots
        if pilot.jobs
        and pilot.started_at_s is not None
        and pilot.left_s(view.now_s) <= LIMITS.renew_s
        and pilot.node not in refused
    }
    assert not due - asked or len(decisions.submits) == LIMITS.submits_max


def pilot_is_drained_before_its_time_limit(view: AllocationView, decisions: Decisions) -> None:
    for pilot in view.pilots:
        if pilot.phase is Phase.granted and pilot.left_s(view.now_s) <= LIMITS.drain_s:
            assert pilot.name in {*decisions.drains, *decisions.releases}


def order_of_what_is_known_changes_nothing(view: AllocationView, decisions: Decisions) -> None:
    turned = {name: getattr(view, name)[::-1] for name in ("nodes", "pilots", "waiting")}
    assert decide(dataclasses.replace(view, **turned), LIMITS) == decisions


def every_node_has_a_reason(_view: AllocationView, decisions: Decisions) -> None:
    assert sorted(decisions.reasons) == [node.name for node in NODES]


LAWS = (
    pilots_are_bounded_and_none_is_there_twice,
    only_pilots_in_which_nothing_runs_are_released,
    pilot_that_is_needed_has_a_successor_in_time,
    pilot_is_drained_before_its_time_limit,
    order_of_what_is_known_changes_nothing,
    every_node_has_a_reason,
)


@given(steps)
def test_every_law_holds_at_every_step(script: Script) -> None:
    for _, view, decisions in played(script):
        for law in LAWS:
            law(view, decisions)


@given(steps)
def test_no_pilot_is_released_before_it_was_idle_for_long(script: Script) -> None:
    """Goal: demand that comes and goes moves nothing. Method: every release is looked at."""
    needless: dict[str, float] = {}
    for _, view, decisions in played(script):
        states = {pilot.name: pilot for pilot in view.pilots}
        for name in decisions.releases:
            if states[name].phase is not Phase.draining:
                assert view.now_s - needless[name] >= LIMITS.idle_s
        needless = {
            name: needless.get(name, view.now_s)
            for name in states
            if name in decisions.spare_since_s
        }


@given(steps)
def test_decision_that_was_carried_out_is_not_taken_again(script: Script) -> None:
    for slurm, view, decisions in played(script):
        again = Slurm(slurm.now_s, dict(slurm.pilots), dict(slurm.refusals))
        again.carry_out(decisions)
        after = decide(again.view(view.waiting), LIMITS)
        assert after.drains == {}
        assert decisions.submits.keys() & after.submits.keys() == set()


@given(demands)
@searched(300)
def test_demand_that_stays_leads_to_a_state_that_stays(waiting: tuple[GpuRequest, ...]) -> None:
    """Goal: no pilot is asked for and given up in turn. Method: days of the same demand."""
    slurm = Slurm()
    limits = dataclasses.replace(LIMITS, limit_s=10**9, pilots_max=6)
    for _ in range(12):
        slurm.carry_out(decide(slurm.view(waiting), limits))
        slurm.give(9)
        slurm.pass_time(LIMITS.idle_s + 1)
    before = sorted(slurm.pilots)
    for _ in range(4):
        decisions = decide(slurm.view(waiting), limits)
        assert (decisions.submits, decisions.releases, decisions.drains) == ({}, {}, {})
        slurm.carry_out(decisions)
        slurm.pass_time(LIMITS.idle_s + 1)
    assert sorted(slurm.pilots) == before


@given(steps, reservations)
def test_pilot_that_is_asked_for_can_end_before_a_reservation(
    script: Script, kept: dict[NodeName, Reservation]
) -> None:
    for slurm, view, decisions in played(script, kept):
        for node, limit_s in decisions.submits.items():
            assert limit_s >= least_s(LIMITS.limit_s)
            reservation = kept.get(node)
            assert reservation is None or view.now_s + limit_s < reservation.start_s
        again = Slurm(slurm.now_s, dict(slurm.pilots), dict(slurm.refusals), kept)
        again.carry_out(decisions)
        after = decide(again.view(view.waiting), LIMITS)
        assert decisions.submits.keys() & after.submits.keys() == set()


@given(steps, reservations)
def test_nothing_runs_into_maintenance(script: Script, kept: dict[NodeName, Reservation]) -> None:
    for _, view, decisions in played(script, kept):
        leaving = {*decisions.drains, *decisions.releases}
        for pilot in view.pilots:
            reservation = kept.get(pilot.node)
            if pilot.phase is Phase.granted and reservation and reservation.is_maintenance:
                is_soon = reservation.start_s - view.now_s <= LIMITS.drain_lead_s(pilot)
                assert (
                    pilot.name in leaving or not is_soon or pilot.ends_at_s <= (reservation.start_s)
                )
