"""One server, jobs that come and go: what each has, by hand."""

from collections.abc import Iterator, Sequence
from math import inf

import pytest

from shunter.core.planning import Consolidated, Placement, Spread
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.core.sizing import Answer, Mechanism, Program, Sizing, Solver
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel
from shunter.events import Resources, facts
from shunter.policies import HighsSolver, SubmissionOrder
from tests.behaviour.waits_scenes import blocks, run_of
from tests.factories import Outcome, needs_highs, node_added

TABLE = SensitivityTable(
    {
        "hungry": {1: Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1, 1), (2, 2)))},
        "mild": {1: Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1, 1), (1.5, 1.5)))},
        "modest": {1: Sensitivity((1000, 3000), (5, 10), ((1.0, 1.0), (1.0, 1.0)))},
    },
    Resources(0, 3000, 10),
)
SOLVER = HighsSolver()


def played(scene: str, solver: Solver = SOLVER, placement: Placement | None = None) -> Outcome:
    """Run a scene such as `tune on 2 2; j0: …`, with 3 CPUs and 10 MB for each GPU of servers."""
    begins, _, rest = scene.partition("; ")
    name, _, gpus = begins.partition(" on ")
    each = [(n, int(count)) for n, count in enumerate(gpus.split())]
    there = tuple(
        node_added(n, count, cpus_milli=3000 * count, memory_mb=10 * count) for n, count in each
    )
    speeds = SpeedModel({one.node: one.configuration for one in there}, sensitivity=TABLE)
    sizing = Sizing(Mechanism[name], TABLE, solver if name == "opt" else None)
    index = SubmissionOrder("fifo", Misfit.skipped)
    by = RankedPolicy(index, placement or Consolidated(), sizing=sizing)
    return run_of(rest, by, servers=there, speeds=speeds, round_us=10)


def told(outcome: Outcome) -> Iterator[str]:
    """Yield what was given whom, CPUs and MB of each share, and who ended."""
    for event in outcome.of(facts.AllocationChanged, facts.JobReshaped, facts.JobFinished):
        if isinstance(event, facts.JobFinished):
            yield f"{event.at_us}: {event.job_id} ends"
            continue
        shares = [f"{one.cpus_milli / 1000:g}/{one.memory_mb}" for one in event.allocation.shares]
        nodes = "+".join(str(one.node) for one in event.allocation.shares)
        where = "" if set(nodes.split("+")) == {"n0"} else f" on {nodes}"
        why = event.because
        for_whom = f" for {', '.join(why.beneficiaries)}" if why.beneficiaries else ""
        speeds = " to ".join(f"{one:.3g}" for one in why.scores)
        size = f" {why.rule} {speeds}" if isinstance(event, facts.JobReshaped) else ""
        yield f"{event.at_us}: {event.job_id} has {'+'.join(shares)}{where}{size}{for_whom}"


CASES = [
    *blocks("""
proportional gives each GPU its part
    proportional on 2; j0: 1 GPU for 30, model=hungry; j1: 1 GPU for 30, model=modest
    => 0: j0 has 3/10; 0: j1 has 3/10; 30: j0 ends; 30: j1 ends
tune gives what one does not need to who does: the modest one is as fast with 1 CPU and 5 MB
    tune on 2; j0: 1 GPU for 45, model=hungry; j1: 1 GPU for 30, model=modest
    => 0: j0 has 5/5; 0: j1 has 1/5; 28: j0 ends; 30: j1 ends
one that runs alone grows when another ends and shrinks when one comes
    tune on 2; j0: 1 GPU for 200, model=hungry; j1: 1 GPU for 20, model=modest;
    j2: 1 GPU for 30 at 35, model=modest
    => 0: j0 has 5/5; 0: j1 has 1/5; 20: j1 ends; 20: j0 has 6/5 grown 1.67 to 2;
       40: j0 has 5/5 shrunk 2 to 1.67 for j2; 40: j2 has 1/5; 70: j2 ends;
       70: j0 has 6/5 grown 1.67 to 2; 109: j0 ends
greedy asks for no more than its part where shapes leave the server out that has more
    greedy on 2 2 8; j0: 4 GPUs for 20, model=hungry, shapes=2+2
    => 0: j0 has 6/10+6/10 on n0+n1; 20: j0 ends
greedy waits for all that makes it fastest, the 6 CPUs of the server, and lets others pass
    greedy on 2; j0: 1 GPU for 40, model=hungry; j1: 1 GPU for 20, model=hungry;
    j2: 1 GPU for 30, model=modest
    => 0: j0 has 6/5; 20: j0 ends; 20: j1 has 6/5; 30: j1 ends; 30: j2 has 1/5; 60: j2 ends
what a job asks for is a floor
    tune on 2; j0: 1 GPU for 30, model=modest, cpus_milli=2500, memory_mb=8;
    j1: 1 GPU for 30, model=hungry
    => 0: j0 has 2.5/8; 0: j1 has 3.5/5; 26: j1 ends; 30: j0 ends
a gang over servers has the same for each GPU
    tune on 2 1; j0: 3 GPUs for 40, model=hungry
    => 0: j0 has 6/10+3/5 on n0+n1; 40: j0 ends
a job that starts looks for a server that has what it can use; with its part it needs none
    proportional on 2 2; j0: 1 GPU for 40, model=hungry; j1: 1 GPU for 40, model=hungry
    => 0: j0 has 3/10; 0: j1 has 3/10; 40: j0 ends; 40: j1 ends
on n0 another hungry one has all that is spare
    tune on 2 2; j0: 1 GPU for 40, model=hungry; j1: 1 GPU for 40, model=hungry
    => 0: j0 has 6/5; 0: j1 has 6/5 on n1; 20: j0 ends; 20: j1 ends
""")
]
SOLVED = [
    *blocks("""
so it is by opt: it grows when another ends and shrinks when one comes
    opt on 2; j0: 1 GPU for 200, model=hungry; j1: 1 GPU for 20, model=modest;
    j2: 1 GPU for 30 at 35, model=modest
    => 0: j0 has 5/5; 0: j1 has 1/5; 20: j1 ends; 20: j0 has 6/5 grown 1.67 to 2;
       40: j0 has 5/5 shrunk 2 to 1.67 for j2; 40: j2 has 1/5; 70: j2 ends;
       70: j0 has 6/5 grown 1.67 to 2; 109: j0 ends
tune gives more to who came first
    tune on 3; j0: 1 GPU for 45, model=mild; j1: 1 GPU for 45, model=hungry;
    j2: 1 GPU for 45, model=modest
    => 0: j0 has 5/5; 0: j1 has 3/5; 0: j2 has 1/5; 34: j0 ends; 40: j1 has 6/5 grown 1 to 2;
       43: j1 ends; 45: j2 ends
opt to who gains more by it: 2 more CPUs make the mild one a third faster, the hungry one two
    opt on 3; j0: 1 GPU for 45, model=mild; j1: 1 GPU for 45, model=hungry;
    j2: 1 GPU for 45, model=modest
    => 0: j0 has 3/5; 0: j1 has 5/5; 0: j2 has 1/5; 28: j1 ends; 30: j0 has 6/5 grown 1 to 1.5;
       40: j0 ends; 45: j2 ends
it takes from who came first and says for whom
    opt on 3; j0: 1 GPU for 200, model=mild; j1: 1 GPU for 200, model=modest;
    j2: 1 GPU for 200 at 15, model=hungry
    => 0: j0 has 6/5; 0: j1 has 1/5; 20: j0 has 3/5 shrunk 1.5 to 1 for j2; 20: j2 has 5/5;
       141: j2 ends; 150: j0 has 6/5 grown 1 to 1.5; 177: j0 ends; 200: j1 ends
""")
]


@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(each, marks=needs_highs) for each in SOLVED)],
    ids=lambda case: case[0],
)
def test_jobs_have_what_the_row_says(case: tuple[str, str, list[str]]) -> None:
    _, scene, (expected,) = case
    assert "; ".join(told(played(scene))) == expected


@pytest.mark.parametrize(
    ("mechanism", "model", "each"),
    [
        ("proportional", "hungry", (3000, 10)),
        ("tune", "hungry", (4000, 5)),
        ("tune", "modest", (1000, 5)),
        ("greedy", "hungry", (3000, 5)),
        ("greedy", "modest", (1000, 5)),
    ],
)
def test_gang_that_no_server_holds_has_what_it_can_use_of_several(
    mechanism: str, model: str, each: tuple[int, int]
) -> None:
    """Three of its GPUs are on a server of 12 CPUs, two on another; all have the same.

    With `greedy` it asks for no more than its proportional share, which it finds wherever it is.
    """
    scene = f"{mechanism} on 4 4; j0: 5 GPUs for 100, model={model}"
    outcome = played(scene, placement=Spread())
    (start,) = [event for event in outcome.of(facts.AllocationChanged) if event.allocation.gpus]
    found = [
        (share.gpus, share.cpus_milli // share.gpus, share.memory_mb // share.gpus)
        for share in start.allocation.shares
    ]
    assert found == [(3, *each), (2, *each)]


def models(*names: str) -> str:
    return "; ".join(f"j{number}: 1 GPU for 45, model={name}" for number, name in enumerate(names))


@needs_highs
@pytest.mark.parametrize(
    ("scene", "speed", "bound"),
    [
        # 1 + 5/3 + 1 together.
        (f"opt on 3; {models('mild', 'hungry', 'modest')}", 11 / 3, 11 / 3),
        # 4 CPUs are left on the server of the modest ones, and each hungry one has 3 on the other;
        # on one server each of these would have 5 and 5/3 of its speed.
        (f"opt on 2 2; {models('modest', 'modest', 'hungry', 'hungry')}", 4, 2 + 10 / 3),
    ],
    ids=["on one server", "on two"],
)
def test_opt_tells_apart_what_one_server_for_all_could_do(
    scene: str, speed: float, bound: float
) -> None:
    solved = played(scene).of(facts.SizesSet)[0]
    assert (solved.speed, solved.bound) == (pytest.approx(speed), pytest.approx(bound))
    assert solved.status == "ok"
    assert solved.gap == 0 or speed < bound


@needs_highs
def test_opt_solves_only_where_jobs_came_or_went() -> None:
    outcome = played(
        "opt on 2; j0: 1 GPU for 100, model=hungry; j1: 1 GPU for 60 at 5, model=mild; "
        "j2: 1 GPU for 30 at 15, model=modest"
    )
    assert outcome.ends_us() == {"j0": 82, "j1": 70, "j2": 100}
    # j0 starts, j1 does, and j2 in its place; the end of j0 leaves a job that needs no more.
    assert [event.at_us for event in outcome.of(facts.SizesSet)] == [0, 10, 70]


class Helpless:
    """Finds nothing, or what no server has."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers

    def solve(self, programs: Sequence[Program]) -> list[Answer]:
        most = [(-1,) * len(each.choices) if self.answers else () for each in programs]
        return [Answer(chosen, inf) for chosen in most]


@pytest.mark.parametrize("answers", [False, True])
def test_sizes_are_those_of_tune_where_no_better_ones_are_found(answers: bool) -> None:
    """One is as fast as 5/3 and one as 1; nobody knows that both cannot be 2."""
    jobs = models("hungry", "hungry", "modest")
    outcome = played(f"opt on 3; {jobs}", solver=Helpless(answers=answers))
    assert [*told(outcome)] == [*told(played(f"tune on 3; {jobs}"))]
    solved = outcome.of(facts.SizesSet)[0]
    assert solved.status.startswith("nothing was found for 2 jobs")
    assert solved.gap == pytest.approx(4 - 8 / 3)
    assert solved.bound == 5
