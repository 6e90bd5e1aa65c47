"""Nothing that a daemon acknowledged is lost to kills while its log is read all the time."""

import pytest

from tests.live.api.serving import Served
from tests.live.log.kills import run

pytestmark = pytest.mark.live

KILLS = 2


def test_nothing_acknowledged_is_lost_to_kills_while_the_log_is_read(served: Served) -> None:
    outcome = run(served, KILLS)
    assert outcome.acknowledged >= KILLS
    assert outcome.readings >= KILLS
    assert outcome.lost == []
