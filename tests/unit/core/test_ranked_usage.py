"""Budgets: sums over running jobs in rank order, against a list that is walked."""

from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from shunter.core.ranking import RankedUsage

running = st.dictionaries(st.integers(0, 40), st.integers(1, 8), min_size=1, max_size=12)


@dataclass
class Walked:
    """What a budget is, without its short cuts."""

    jobs: dict[int, int] = field(default_factory=dict)

    def after(self, key: int) -> int:
        return sum(gpus for other, gpus in self.jobs.items() if other > key)

    def misfits(self, after: int, upto: int, short: int) -> list[int]:
        """Seat the jobs in (after, upto] one by one with `short` GPUs too few."""
        left, found = sum(self.jobs[key] for key in self.jobs if after < key <= upto) - short, []
        for key in sorted(self.jobs):
            if after < key <= upto:
                if self.jobs[key] <= left:
                    left -= self.jobs[key]
                else:
                    found.append(key)
        return found


def filled(jobs: dict[int, int]) -> RankedUsage:
    """Return the budget of jobs that came in any order."""
    budget = RankedUsage()
    for key, gpus in jobs.items():
        budget.add(key, gpus)
    return budget


@given(jobs=running, key=st.integers(-1, 41))
def test_gpus_after_a_key_are_those_of_later_ranks(jobs: dict[int, int], key: int) -> None:
    assert filled(jobs).after(key) == Walked(jobs).after(key)


@given(jobs=running, data=st.data())
def test_misfits_are_those_that_a_walk_finds(jobs: dict[int, int], data: st.DataObject) -> None:
    budget, keys = filled(jobs), sorted(jobs)
    upto = data.draw(st.integers(keys[0], 41))
    after = data.draw(st.integers(-1, max(key for key in keys if key <= upto) - 1))
    most = sum(jobs[key] for key in keys if after < key <= upto)
    short = data.draw(st.integers(1, most))
    walked = Walked(jobs).misfits(after, upto, short)
    assert budget.misfits(after, upto, short) == walked
    assert budget.summed().first_misfit(after, upto, short) == walked[0]
    assert budget.summed().after(after) == budget.after(after)


@given(jobs=running, data=st.data())
def test_removing_undoes_adding(jobs: dict[int, int], data: st.DataObject) -> None:
    budget, rest = filled(jobs), dict(jobs)
    for key in data.draw(st.lists(st.sampled_from(sorted(jobs)), unique=True)):
        budget.remove(key)
        del rest[key]
    assert budget == filled(rest)
    assert budget.keys == sorted(rest)
    assert budget.total == sum(rest.values())
