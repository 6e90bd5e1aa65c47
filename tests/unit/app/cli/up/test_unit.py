from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app, unit_text

UNIT = """\
# A scheduler of your own, kept up by systemd:
#
#   mkdir -p ~/.config/systemd/user
#   shunter up --systemd-unit > ~/.config/systemd/user/shunter.service
#   systemctl --user enable --now shunter
#   loginctl enable-linger            # so that it lives while you are logged out
[Unit]
Description=Shunter, a scheduler for deep-learning jobs

[Service]
ExecStart=/opt/py/bin/python -P -m shunter serve "/srv/ana b/100%%.toml"
# It says when it takes commands; why a start failed is in the journal.
Type=notify
Restart=on-failure
RestartSec=2
# 2: the config is wrong, 5: another daemon is at work. Trying again would change nothing.
RestartPreventExitStatus=2 5
# A stop ends the daemon alone: its jobs run on, and the next start finds them again.
KillMode=process
# Lets the daemon hold jobs to the memory they asked for, where systemd delegates that to users.
Delegate=yes
LimitNOFILE=65536
TasksMax=infinity

[Install]
WantedBy=default.target
"""


def test_unit_is_as_it_was_agreed() -> None:
    words = ["/opt/py/bin/python", "-P", "-m", "shunter", "serve", "/srv/ana b/100%.toml"]
    assert unit_text(words, is_root=False) == UNIT


def test_unit_of_root_is_one_of_the_machine() -> None:
    text = unit_text(["shunter", "serve", "/a.toml"], is_root=True)
    assert text.startswith(
        "# A scheduler of this machine, kept up by systemd:\n#\n"
        "#   shunter up --systemd-unit > /etc/systemd/system/shunter.service\n"
        "#   systemctl enable --now shunter\n[Unit]\n"
    )
    assert text.endswith("WantedBy=multi-user.target\n")
    assert "--user" not in text


def test_printing_a_unit_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUNTER_HOME", str(tmp_path / "up"))
    found = CliRunner().invoke(app, ["up", "--systemd-unit"])
    assert (found.exit_code, "ExecStart=" in found.stdout) == (0, True)
    assert f"{tmp_path}/up/shunter.toml is not there yet: `shunter up` writes it" in found.stderr
    assert sorted(tmp_path.iterdir()) == []
