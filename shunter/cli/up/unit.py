"""A unit for systemd that serves a config: a user's own service, or root's of the machine."""

from collections.abc import Sequence
from string import Template
from typing import Final

UNIT_FILE: Final = "~/.config/systemd/user/shunter.service"
ROOT_UNIT_FILE: Final = "/etc/systemd/system/shunter.service"

_OF_USER = f"""\
# A scheduler of your own, kept up by systemd:
#
#   mkdir -p ~/.config/systemd/user
#   shunter up --systemd-unit > {UNIT_FILE}
#   systemctl --user enable --now shunter
#   loginctl enable-linger            # so that it lives while you are logged out
"""
_OF_ROOT = f"""\
# A scheduler of this machine, kept up by systemd:
#
#   shunter up --systemd-unit > {ROOT_UNIT_FILE}
#   systemctl enable --now shunter
"""

_TEXT = Template("""\
$head[Unit]
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
# Lets the daemon hold jobs to the memory they asked for$delegates.
Delegate=yes
LimitNOFILE=65536
TasksMax=infinity

[Install]
WantedBy=$target
""")


def unit_text(command: Sequence[str], *, is_root: bool) -> str:
    """Return the text of a unit that runs a command, as root's or as a user's own."""
    return _TEXT.substitute(
        command=" ".join(map(_quoted, command)),
        head=_OF_ROOT if is_root else _OF_USER,
        delegates="" if is_root else ", where systemd delegates that to users",
        target="multi-user.target" if is_root else "default.target",
    )


def _quoted(word: str) -> str:
    """Return a word as `ExecStart=` takes it (systemd.service(5), command lines)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or not word or set(word) & set(" \t';") else word
