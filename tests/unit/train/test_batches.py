"""Scripts that a resumed run has to follow from wherever they were: exact, or refused in words."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shunter.train.channel import Requests
from shunter.train.checkpoints import Checkpoints
from shunter.train.run import Run
from shunter.train.state import Parts
from tests.unit.train.test_loaders import Shuffled
from tests.unit.train.toy import Left, Supervisor, leave

Found = list[object]
Script = Callable[[Run, Found, Callable[[], None]], None]


class Drawn:
    """Batches in an order that the global source of chance decides."""

    def __init__(self, first: int) -> None:
        self.numbers = range(first, first + 3)

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(self.numbers, 3))


def stepped(run: Run, found: Found, reached: Callable[[], None], batch: object) -> None:
    found.append((run.epoch, batch, random.random()))
    reached()
    run.step()


def evaluated(
    run: Run, found: Found, reached: Callable[[], None], loader: Drawn | Shuffled
) -> None:
    """Evaluate, and note it once it is whole; done again, it is to be as it was."""
    batches = []
    for batch in run.evaluate(loader):
        batches.append((batch, random.random()))
        reached()
    noted = (run.steps_done, batches)
    if noted not in found[-2:]:
        found.append(noted)


def ran(script: Script, supervisor: Supervisor, folder: Path, stops: list[int]) -> Found:
    """Ask at so many batches of each attempt; return what all attempts found."""
    found: Found = []
    for attempt, stop in enumerate([*stops, 0], start=1):
        left = [stop]

        def reached(left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                supervisor.ask()

        random.seed(attempt)  # nothing but the checkpoint may carry chance over
        run = Run(
            Checkpoints(folder, attempt=attempt, rank=0, world=1),
            parts=Parts(PARTS.get(script, dict)()),
            leave=leave,
            requests=Requests(str(supervisor.asks)),
        )
        run.resume()
        try:
            script(run, found, reached)
        except Left:
            supervisor.asks.unlink()
        else:
            supervisor.asks.unlink(missing_ok=True)
            break
    return found


def by_number(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a = Shuffled(0)
    for _ in run.epochs(2):
        for _ in range(3):
            for batch in run.batches(a):
                stepped(run, found, reached, batch)


def by_steps(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a = Drawn(0)
    for epoch in run.epochs(2):
        while run.steps_done < 8 * (epoch + 1):
            for batch in run.batches(a):
                stepped(run, found, reached, batch)
                if run.steps_done == 8 * (epoch + 1):
                    break


def between(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a, b = Shuffled(0), Drawn(10)
    for _ in run.epochs(2):
        for loader in (a, a, b, a):
            for batch in run.batches(loader):
                stepped(run, found, reached, batch)


def wrapped_once(run: Run, found: Found, reached: Callable[[], None]) -> None:
    batches = run.batches(Drawn(0))
    for _ in run.epochs(2):
        for _ in range(2):
            for batch in batches:
                stepped(run, found, reached, batch)


def over_epochs(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a, b = Drawn(0), Shuffled(10)
    more = iter(run.batches(b, "b"))
    for _ in run.epochs(4):
        for batch in run.batches(a, "a"):
            if run.steps_done % 2:
                stepped(run, found, reached, batch)
                continue
            try:
                other = next(more)
            except StopIteration:
                more = iter(run.batches(b, "b"))
                other = next(more)
            stepped(run, found, reached, (batch, other))


def evaluating_twice(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a, b, c = Shuffled(0), Drawn(10), Drawn(20)
    for _ in run.epochs(3):
        for batch in run.batches(a):
            stepped(run, found, reached, batch)
        evaluated(run, found, reached, b)
        evaluated(run, found, reached, c)


def evaluating_in_mid_epoch(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a, b = Drawn(0), Drawn(10)
    for _ in run.epochs(3):
        if run.is_evaluation_due and run.steps_done % 3:
            evaluated(run, found, reached, b)
        for batch in run.batches(a):
            stepped(run, found, reached, batch)
            if run.steps_done % 2 == 0:
                evaluated(run, found, reached, b)


def evaluating_first(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a, b = Drawn(0), Drawn(10)
    for _ in run.epochs(3):
        for batch in run.batches(a):
            if run.steps_done % 2 == 0:
                evaluated(run, found, reached, b)
            stepped(run, found, reached, batch)


def breaking_off(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a, b = Drawn(0), Drawn(10)
    for _ in run.epochs(3):
        for batch in run.batches(a):
            stepped(run, found, reached, batch)
        for batch in run.evaluate(b):
            found.append(batch)
            break
        held = iter(run.evaluate(b))
        found.append(next(held))


def evaluating_seeded(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a, b = Drawn(0), Shuffled(10)
    for epoch in run.epochs(3):
        for batch in run.batches(a):
            stepped(run, found, reached, batch)
        b.chance.seed(epoch)
        evaluated(run, found, reached, b)
        evaluated(run, found, reached, Shuffled(20))


PART = Shuffled(10)


def evaluating_a_part(run: Run, found: Found, reached: Callable[[], None]) -> None:
    a = Drawn(0)
    for _ in run.epochs(3):
        for batch in run.batches(a):
            stepped(run, found, reached, batch)
        evaluated(run, found, reached, PART)


def part_of_its_own() -> dict[str, object]:
    PART.chance.seed(10)
    return {"validation": PART.chance}


PARTS: dict[Script, Callable[[], dict[str, object]]] = {evaluating_a_part: part_of_its_own}


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "attempt") as found:
        yield found


@pytest.mark.parametrize(
    "script",
    [
        by_number,
        by_steps,
        between,
        wrapped_once,
        over_epochs,
        evaluating_twice,
        evaluating_first,
        evaluating_seeded,
        evaluating_a_part,
        breaking_off,
    ],
)
def test_script_goes_on_as_if_nobody_had_stopped_it(
    script: Script, supervisor: Supervisor, tmp_path: Path
) -> None:
    expected = ran(script, supervisor, tmp_path / "whole", [])
    for stops in ([1], [2, 2], [3], [4, 1], [5], [7, 1, 1], [8, 3], [9], [11, 2], [14]):
        folder = tmp_path / "-".join(map(str, stops))
        assert ran(script, supervisor, folder, stops) == expected, stops


@pytest.mark.parametrize("stop", [3, 4, 5, 8, 9, 10])
def test_evaluation_in_mid_epoch_is_done_again_with_the_chance_it_had(
    stop: int, supervisor: Supervisor, tmp_path: Path
) -> None:
    expected = ran(evaluating_in_mid_epoch, supervisor, tmp_path / "whole", [])
    assert ran(evaluating_in_mid_epoch, supervisor, tmp_path / "cut", [stop]) == expected


def test_pass_that_begins_while_the_one_before_is_held_is_refused() -> None:
    run, loader = Run(None), Drawn(0)
    for _ in run.epochs(1):
        held = iter(run.batches(loader))
        assert len(list(held)) == 3
        with pytest.raises(ValueError, match="a name where `next` asks for batches"):
            iter(run.batches(loader))
        held = iter(run.batches(loader, "train"))
        assert len(list(held)) == 3
        assert len(list(run.batches(loader, "train"))) == 3


def nested(run: Run, outer: str, inner: str) -> None:
    loader = Drawn(0)
    for _ in run.batches(loader, outer):
        for _ in run.batches(loader if outer == inner else Drawn(10), inner):
            run.step()


def test_step_within_a_loop_within_another_is_refused_with_what_to_write() -> None:
    run = Run(None)
    with pytest.raises(ValueError, match="name each"):
        nested(run, "", "")
    with pytest.raises(ValueError, match=r"Call run\.step after the inner loop"):
        nested(run, "outer", "inner")
    assert run.steps_done == 2
    with pytest.raises(ValueError, match="name each"):
        nested(run, "same", "same")


def test_request_waits_until_it_is_known_whether_loops_are_nested(supervisor: Supervisor) -> None:
    run = Run(None, requests=Requests(str(supervisor.asks)))
    supervisor.ask()
    for _ in run.batches(Drawn(0), "outer"):
        for _ in run.batches(Drawn(10), "inner"):
            assert not run.boundary()
            break
        break


def pairs(run: Run) -> Iterator[tuple[int, int]]:
    def for_ever() -> Iterator[int]:
        while True:
            yield from run.batches(Drawn(10), "b")

    return zip(run.batches(range(12), "a"), for_ever(), strict=False)


def alternating(run: Run) -> Iterator[int]:
    more = iter(run.batches(Drawn(10), "b"))
    for number in run.batches(range(12), "a"):
        yield number
        try:
            yield next(more)
        except StopIteration:
            more = iter(run.batches(Drawn(10), "b"))
            yield next(more)


def validating(run: Run) -> Iterator[int]:
    for number in run.batches(range(12), "a"):
        assert len(list(run.batches(Drawn(10), "b"))) == 3
        yield number


def prepared(run: Run) -> Iterator[int]:
    more = iter(run.batches(Drawn(10), "b"))
    yield from run.batches(range(12), "a")
    yield from more


@pytest.mark.parametrize(
    ("loop", "steps"), [(pairs, 12), (alternating, 24), (validating, 12), (prepared, 15)]
)
def test_loops_that_take_from_two_loaders_in_turn_are_not_taken_for_nested(
    loop: Callable[[Run], Iterator[object]], steps: int
) -> None:
    run = Run(None)
    for _ in loop(run):
        run.step()
    assert run.steps_done == steps


def test_evaluation_that_no_checkpoint_could_carry_on_is_refused() -> None:
    loader = Shuffled(0)
    run = Run(None)
    assert len(list(run.evaluate(loader))) == 3
    with pytest.raises(ValueError, match=r"train.start\(..., validation=generator\)"):
        list(run.evaluate(loader))
    with pytest.raises(TypeError, match=r"`enumerate\(..., run.evaluate\(loader\)\)`"):
        list(run.evaluate(enumerate(loader)))
