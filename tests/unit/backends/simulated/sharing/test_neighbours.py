"""Jobs on other GPUs of a server that slow each other down: by hand, to the microsecond."""

from shunter.backends.simulated import SimulatedBackend
from shunter.core import Stop
from shunter.core.speeds import FactorTable, ModelFactors, SpeedModel
from shunter.events import Level, LevelGroups, SpeedChanged
from tests.factories import allocation, configuration, job_id, node_name, trace_job
from tests.unit.backends.simulated.driving import Hand, ends, launch, migrate, suspend

SWITCHES = (LevelGroups(Level.switch, (0b0011, 0b1100)),)
NODES = {node_name(number): configuration(4, levels=SWITCHES) for number in range(2)}
TABLE = FactorTable({"rnn": ModelFactors(beside={Level.switch: 0.5, Level.server: 0.8})})
SPEEDS = SpeedModel(NODES, factors=TABLE)
J0, J1 = job_id(0), job_id(1)


def world(*models: str, lasts: int = 20) -> Hand:
    """Return a world of jobs of these models, all of them there."""
    jobs = [trace_job(number, lasts=lasts, model=model) for number, model in enumerate(models)]
    found = Hand(SimulatedBackend(jobs, speeds=SPEEDS))
    found.until(0)
    return found


def test_job_slows_down_while_it_has_a_neighbour() -> None:
    """j0 has done 10 when its neighbour comes; both are slow until j0 ends at 30."""
    hand = world("rnn", "rnn")
    hand.orders(launch(0, where=allocation(n0=1)))
    hand.until(10)
    hand.orders(launch(1, where=allocation(n0=2)))
    seen = hand.goes_on()
    assert ends(seen) == {"j0": 30, "j1": 40}
    changes = [one for one in seen if isinstance(one, SpeedChanged)]
    assert changes == [SpeedChanged(10, J0, 1, 0.5), SpeedChanged(30, J1, 1, 1.0)]


def test_only_the_model_that_suffers_is_slower() -> None:
    hand = world("rnn", "steady")
    hand.orders(launch(0, where=allocation(n0=1)), launch(1, where=allocation(n0=0b100)))
    assert ends(hand.goes_on()) == {"j1": 20, "j0": 20 + 4}


def test_neighbour_that_leaves_moves_or_stands_still_is_none() -> None:
    for order in (suspend(1), migrate(1), Stop(J1, 1)):
        hand = world("rnn", "rnn")
        hand.orders(launch(0, where=allocation(n0=1)), launch(1, where=allocation(n0=2)))
        hand.until(10)
        hand.orders(order)
        assert ends(hand.goes_on())["j0"] == 10 + 15


def test_job_in_another_server_is_no_neighbour() -> None:
    hand = world("rnn", "rnn")
    hand.orders(launch(0, where=allocation(n0=1)), launch(1, where=allocation(n1=2)))
    assert ends(hand.goes_on()) == {"j0": 20, "j1": 20}


def test_job_without_gpus_is_no_neighbour() -> None:
    hand = world("rnn", "rnn")
    hand.orders(launch(0, where=allocation(n0=1)), launch(1, where=allocation(n0=0)))
    assert ends(hand.goes_on()) == {"j0": 20, "j1": 20}
