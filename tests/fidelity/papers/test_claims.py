"""Verdicts follow from the numbers, whichever way they point."""

from collections.abc import Callable

import pytest

from shunter_papers.claims import Claim, claim_document, is_reached, sentences
from shunter_papers.tables import Row, Table

pytestmark = pytest.mark.fidelity

MakeRow = Callable[..., Row]
MakeTable = Callable[..., Table]
CLAIM = Claim("up to 3× lower average JCT", "Paper", 3.0, ("las",))


def _table(
    make_row: MakeRow, make_table: MakeTable, mean_s: float, load: float = 0.9, p95_s: float = 100
) -> Table:
    base, las = make_row("base", (600, 60, 100)), make_row("las", (mean_s, 60, p95_s))
    return make_table(base, las, load=load)


def test_a_claim_is_reached_exactly_at_its_ratio(make_row: MakeRow, make_table: MakeTable) -> None:
    at, below = (_table(make_row, make_table, mean_s) for mean_s in (200.0, 200.1))

    assert is_reached(CLAIM, at, at.rows[1]) is True
    assert is_reached(CLAIM, below, below.rows[1]) is False


def test_a_claim_says_nothing_of_others(make_row: MakeRow, make_table: MakeTable) -> None:
    table = _table(make_row, make_table, 200)

    assert is_reached(CLAIM, table, table.rows[0]) is None


def test_sentences_name_the_loads_at_which_it_holds_and_does_not(
    make_row: MakeRow, make_table: MakeTable
) -> None:
    tables = [
        _table(make_row, make_table, mean_s, load) for mean_s, load in ((500, 0.7), (150, 1.1))
    ]

    said = sentences(CLAIM, tables)

    assert said[0] == "Up to 3× lower average JCT (Paper): reached in 1 of 2 comparisons"
    assert said[1] == (
        "made: las reaches 3× at load 1.1, restarts free (4.00×); "
        "it does not at load 0.7, restarts free (1.20×)"
    )
    assert len(said) == 2


def test_sentences_say_that_it_is_reached_nowhere(make_row: MakeRow, make_table: MakeTable) -> None:
    tables = [
        _table(make_row, make_table, mean_s, load) for mean_s, load in ((500, 0.7), (300, 1.1))
    ]

    said = sentences(CLAIM, tables)

    assert said[0].endswith("reached in none of 2 comparisons")
    assert said[1] == (
        "made: las reaches 3× nowhere; its best is at load 1.1, restarts free (2.00×), "
        "its worst at load 0.7, restarts free (1.20×)"
    )


def test_sentences_say_that_it_is_reached_everywhere(
    make_row: MakeRow, make_table: MakeTable
) -> None:
    said = sentences(CLAIM, [_table(make_row, make_table, 100)])

    assert said[1] == "made: las reaches 3× everywhere: at load 0.9, restarts free (6.00×)"


def test_sentences_own_up_to_what_gets_worse(make_row: MakeRow, make_table: MakeTable) -> None:
    said = sentences(CLAIM, [_table(make_row, make_table, 100, p95_s=200)])

    assert said[2] == (
        "made: the 95th percentile is worse than the baseline's with "
        "las at load 0.9, restarts free (0.50×)"
    )


def test_sentences_tell_what_restarts_cost(make_row: MakeRow, make_table: MakeTable) -> None:
    rows = [
        make_row("base", (600, 1, 1)),
        make_row("las", (100, 1, 1)),
        make_row("base", (600, 1, 1), variant="costs"),
        make_row("las", (110, 1, 1), variant="costs"),
    ]

    said = sentences(CLAIM, [make_table(*rows)])

    assert said[2] == (
        "made: restarts that cost 60 s change the average of las by +10.0 % to +10.0 %"
    )


def test_sentences_warn_of_a_baseline_that_falls_behind(
    make_row: MakeRow, make_table: MakeTable
) -> None:
    tables = [
        make_table(make_row("base", (600, 1, 1), growth=growth), make_row("las", (100, 1, 1)))
        for growth in (1.9, 7.0)
    ]

    said = [sentences(CLAIM, [table]) for table in tables]

    assert len(said[0]) == 2
    assert "took 7.0 times as long as its first" in said[1][2]


def test_no_job_finished_is_no_verdict(make_row: MakeRow, make_table: MakeTable) -> None:
    none = (None, None, None)
    table = make_table(make_row("base", none), make_row("las", none))

    said = sentences(CLAIM, [table])

    assert said[0].endswith("nothing can be said, no job finished")
    assert is_reached(CLAIM, table, table.rows[1]) is None
    assert claim_document(CLAIM, [table])["verdicts"] == []


def test_the_document_has_a_verdict_for_each_comparison(
    make_row: MakeRow, make_table: MakeTable
) -> None:
    document = claim_document(CLAIM, [_table(make_row, make_table, 100)])

    assert document["verdicts"] == [
        {
            "trace": "made",
            "load": 0.9,
            "load_offered": 0.9,
            "variant": "free",
            "label": "las",
            "policy": "las",
            "ratio": 6.0,
            "reached": True,
        }
    ]
