"""How long a daemon is waited for that does not answer."""

from shunter.client import Absence


def test_daemon_is_waited_for_from_its_first_silence_on_and_anew_after_an_answer() -> None:
    absence = Absence(9.0)
    assert not absence.has_begun
    first, second = absence.left_s(), absence.left_s()
    assert 9.0 >= first >= second > 8.0
    absence.end()
    assert not absence.has_begun
    assert absence.left_s() > second


def test_daemon_that_is_not_waited_for_is_not_tried_again() -> None:
    assert not Absence(0.0).pause()
    assert Absence(9.0).pause(0.0)
