"""A unit for systemd that serves a config as a user's own service."""

from collections.abc import Sequence
from string import Template
from typing import Final

UNIT_FILE: Final = "~/.config/systemd/user/shunter.service"

_TEXT = Template("""\
# A scheduler of your own, kept up by systemd:
#
#   shunter up --systemd-unit > ~/.config/systemd/user/shunter.service
#   systemctl --user enable --now shunter
#   loginctl enable-linger            # so that it lives while you are logged out
[Unit]
Description=Shunter, a scheduler for deep-learning jobs

[Service]
ExecStart=$command
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
""")


def unit_text(command: Sequence[str]) -> str:
    """Return the text of a unit that runs a command."""
    return _TEXT.substitute(command=" ".join(map(_quoted, command)))


def _quoted(word: str) -> str:
    """Return a word as `ExecStart=` takes it (systemd.service(5), command lines)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or not word or set(word) & set(" \t';") else word
