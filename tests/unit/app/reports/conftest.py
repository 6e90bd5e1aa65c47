"""Reports on runs, as documents."""

import json

import pytest

from tests.unit.app.recounted import Recounted, recounted


class Reported:
    """A run with its events, and the document of a report on it."""

    def __init__(self, run: Recounted) -> None:
        self.url, self.result, self.events = run.url, run.result, run.events
        (self.run,) = json.loads(run.told("report", run.url, "--json"))["runs"]


@pytest.fixture(scope="session", params=["at once", "with costs", "failing", "in turns"])
def reported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    return Reported(recounted(request.param, tmp_path_factory))
