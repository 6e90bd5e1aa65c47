"""The benchmark of forecasts: what held, and how certain that is where jobs wait together."""

from benchmarks.analysis.forecasts import Asked, Found, Run, found_in, shares, table as table_of


def run(seed: int) -> Run:
    return Run("fifo", 1.6, seed, "philly-like", 10, 2, 4)


def found(held: int, late: int, certain: int = 0, unknown: int = 0) -> Found:
    """Return starts, so many of which came by their P90 and so many later; by P50 none."""
    asked = [Asked("start", 5, 4, 9)] * held + [Asked("start", 50, 4, 9)] * late
    asked += [Asked("start", 5, 5, 5)] * certain + [Asked("start", 5, 4, None)] * unknown
    return Found(asked, 7, 0.5)


def test_what_is_certain_or_not_told_counts_in_no_share() -> None:
    held = shares([(run(1), found(2, 1, certain=3, unknown=1))], "start")

    assert (held.asked, held.certain, held.unknown) == (7, 3, 25.0)
    assert (held.p50, held.p90, held.p90_ci95) == (0.0, 66.7, None)
    assert shares([(run(1), found(1, 0))], "end").asked == 0


def test_jobs_of_a_seed_that_hold_together_are_one_observation() -> None:
    """Method: ten seeds of ten starts, of which nine hold in each, or all in nine of ten seeds."""
    alike = [(run(seed), found(9, 1)) for seed in range(10)]
    together = [(run(seed), found(10, 0) if seed else found(0, 10)) for seed in range(10)]

    assert shares(alike, "start")[4:6] == (90.0, 0.0)
    # The standard error of a mean of ten values, nine of them 1, and the t of 9 degrees.
    held = shares(together, "start")
    assert (held.p90, held.p90_ci95) == (90.0, 22.6)


def test_loads_of_a_seed_are_the_same_jobs() -> None:
    apart = [(run(seed), found(1 - seed % 2, seed % 2)) for seed in range(4)]
    doubled = [
        (run(seed % 4)._replace(load=seed), found(1 - seed % 2, seed % 2)) for seed in range(8)
    ]

    assert shares(apart, "start") == shares(doubled, "start")._replace(asked=4)


def test_table_says_how_many_waits_there_were() -> None:
    lines = table_of([(run(1), found(1, 0)), (run(2), found(0, 1))])

    assert lines[0].startswith("| policy | load | seed | waits | starts | by P50 |")
    assert lines[2].startswith("| fifo | all | all | 14 | 2 | 0.0 ± 0.0 | 50.0 ± ")
    assert [line.count("|") for line in lines] == [13] * len(lines)


def test_instants_at_which_jobs_wait_are_chosen_where_that_is_asked_for() -> None:
    """Method: one asking of a kind at each moment; at other instants there is no start."""
    anywhere = run(4)._replace(jobs=60, moments=2, each=1)

    found = [
        [each.what for each in found_in(anywhere._replace(must_wait=must_wait)).asked]
        for must_wait in (False, True)
    ]

    assert found == [["end"] * 2, ["start", "end"] * 2]
