"""Logs of runs under placement topology: decided again, and asked why."""

from dataclasses import replace

import pytest
from hypothesis import given

from shunter.ask import Verifier
from shunter.core import AnyPolicy
from shunter.core.planning import Decentralised, Packing, Topology
from shunter.core.ranking import Ranking
from shunter.core.speeds import level_of
from shunter.events import AllocationChanged, JobId, Level, LevelGroups, encode_record
from shunter.policies import Tiresias
from shunter.policies.gavel import Gavel, GavelMemory
from tests.factories import Outcome, World, las_policy, policy, run, scheme, servers, trace_job
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, rebuilt
from tests.replay.test_skew import recorded, why
from tests.slices import searched

ADAPTIVE = Topology(pack_above=0.5, spread_below=0.3)
SWITCHES = LevelGroups(Level.switch, (0b0011, 0b1100))
WIRED = servers(4, 4, levels=(SWITCHES,))


def chosen(name: str) -> AnyPolicy:
    if name == "gavel":
        return Gavel.build(Gavel.Params.model_validate({"objective": "isolated"}), ADAPTIVE)
    if name == "tiresias":
        return Tiresias.build(Tiresias.Params(), ADAPTIVE)
    ranked = las_policy() if name == "las" else policy(name, "topology")
    return replace(ranked, placement=ADAPTIVE)


def packing_of(memory: object) -> Packing:
    assert isinstance(memory, Ranking | GavelMemory)
    return memory.packing


@pytest.mark.parametrize("name", ["fifo", "fifo_easy", "las", "srtf", "tiresias", "gavel"])
@searched(25)
@given(scene=scenes())
def test_run_is_decided_again_to_the_same_memory_of_load(name: str, scene: Scene) -> None:
    by, world = chosen(name), scene.world
    outcome = run(world, by)
    log = Recorded(outcome.events, rebuilt(by, world.rules(instant=world.backend().instant)))
    verifier = Verifier(log.rebuild)

    divergence = verifier.take(log.events)

    assert divergence is None, "\n".join(divergence.lines())
    assert packing_of(verifier.memory) == packing_of(outcome.core.memory)
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)


def places(outcome: Outcome) -> dict[str, dict[str, int]]:
    """Return where each job was started first."""
    found: dict[str, dict[str, int]] = {}
    for change in outcome.of(AllocationChanged):
        shares = change.allocation.shares
        if shares:
            found.setdefault(change.job_id, {share.node: share.gpu_mask for share in shares})
    return found


@pytest.mark.parametrize("how", [None, scheme()], ids=["central", "decentralised"])
def test_jobs_are_spread_until_the_load_passes_a_threshold_and_packed_from_then_on(
    how: Decentralised | None,
) -> None:
    """Each arrival is decided on by itself, so the load it finds is what came before it."""
    jobs = tuple(trace_job(number, at=10 * number, lasts=1000) for number in range(7))
    by = replace(policy("fifo"), placement=ADAPTIVE)
    by = by if how is None else by.with_scheme(how)

    found = places(run(World(servers=WIRED, jobs=jobs, decentralised=how), by))

    masks = [found[f"j{number}"] for number in range(7)]
    # Apart: one on each of the four switches, the emptiest server first; the fifth finds half used.
    assert masks[:5] == [{"n0": 1}, {"n1": 1}, {"n0": 4}, {"n1": 4}, {"n0": 2}]
    # More than half is in use: beside each other, on the server that is fuller.
    assert masks[5:] == [{"n0": 8}, {"n1": 2}]


def test_gang_waits_for_locality_only_while_no_switch_is_free() -> None:
    jobs = (
        *(trace_job(number, lasts=100 + number, shapes=((1,),)) for number in range(4)),
        trace_job(4, 2, at=10, lasts=50, max_level=Level.switch),
        trace_job(5, 2, at=11, lasts=50),
    )
    by = replace(policy("fifo_backfill", "topology"), placement=ADAPTIVE)
    one = World(servers=servers(4, 4, levels=(SWITCHES,)), jobs=jobs)
    log = recorded(one, by)

    outcome = run(one, by)
    gang = next(change for change in outcome.of(AllocationChanged) if change.job_id == JobId("j4"))
    nodes = {event.node: event.configuration for event in WIRED}
    assert level_of(gang.allocation, nodes) is Level.switch
    assert gang.at_us > 10
    assert why(log, "j4", 50) == ("locality_not_met", True, True)
    assert "j5" in places(outcome)
