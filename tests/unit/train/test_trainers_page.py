"""The page on trainers says what `make trainers` found, with the scripts and pins of today."""

import json

from docs.trainers_page import GOOD, PAGE, page
from tests.trainers.catalogue import RESULTS, trainers


def test_page_is_what_was_found() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.trainers_page"


def test_each_result_is_of_the_script_and_the_pins_of_today() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    known = {each.name: each for each in trainers()}
    assert results, "nothing was ever tried"
    stale = [
        name
        for name, result in results.items()
        if name not in known or result["of"] != known[name].digest()
    ]
    assert not stale, f"run: make trainers ONLY='{' '.join(stale)}'"
    never = [name for name in known if name not in results]
    assert not never, f"run: make trainers ONLY='{' '.join(never)}'"


def test_each_result_is_as_its_entry_says() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for trainer in trainers():
        outcomes = {each["outcome"] for each in results[trainer.name]["points"]}
        assert outcomes.issubset(GOOD) == (trainer.expects == "exact"), trainer.name
