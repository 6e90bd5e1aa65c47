from shunter.backends.supervised.environment import filled


def test_secret_stands_in_the_command_again() -> None:
    command = ["curl", "-H", "Authorization: {secret:TOKEN}", "{secret:TOKEN}{secret:KEY}"]
    given = {"TOKEN": "abcd", "KEY": "{secret:TOKEN}"}
    assert filled(command, given) == ["curl", "-H", "Authorization: abcd", "abcd{secret:TOKEN}"]


def test_what_is_no_secret_of_the_job_stays_as_it_is() -> None:
    assert filled(["{secret:NONE}", "{x}", "secret:TOKEN"], {"TOKEN": "abcd"}) == [
        "{secret:NONE}",
        "{x}",
        "secret:TOKEN",
    ]
