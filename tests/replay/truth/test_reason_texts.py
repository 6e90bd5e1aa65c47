"""Each reason has a text that is kept, and `why` says just that today."""

import asyncio

import pytest

from shunter.events import Reason
from shunter.events.log import read_log
from tests.factories import needs_highs
from tests.replay.truth.mixed_runs import simulated_once
from tests.replay.truth.reason_texts import FAMILIES, KEPT, reasons_of, text_of_log, text_of_scene
from tests.replay.truth.scenes import SCENES

WRITE = "if that is meant: python -m tests.replay.truth.reason_texts --write"
TEXTS = {text.partition("\n")[0]: text for text in KEPT.read_text(encoding="utf-8").split("== ")}


def kept(title: str) -> str:
    assert title in TEXTS, f"no text of {title!r} is kept; {WRITE}"
    return "== " + TEXTS[title].rstrip("\n") + "\n"


def test_every_reason_has_a_text() -> None:
    missing = {str(reason) for reason in Reason} - set(reasons_of(KEPT.read_text(encoding="utf-8")))
    assert not missing, f"add a scene to tests/replay/truth/scenes.py for {sorted(missing)}"


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_told_in_the_words_that_are_kept(name: str) -> None:
    text = text_of_scene(name, SCENES[name])

    assert text == kept(f"{name} · a scene"), WRITE


@needs_highs
@pytest.mark.parametrize("name", FAMILIES)
def test_a_log_is_told_in_the_words_that_are_kept(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = simulated_once(name, tmp_path_factory)
    titles = [title for title in TEXTS if f" · {name} · " in title]

    async def told() -> list[str]:
        async with read_log(url) as reader:
            return [await text_of_log(reader, title) for title in titles]

    assert len(titles) >= 4
    assert asyncio.run(told()) == [kept(title) for title in titles], WRITE
