"""Hosts as labs have them: whatever the login shell is, a job runs there or it is said why not.

Each is a real sshd with the real shell of Debian, which it takes from an /etc/passwd of its own.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread
import pytest

from shunter.backends.live import SshHost, host_inventories
from shunter.core import AttemptExited
from shunter.events import AttemptStarted, NodeName, NodeUnreachable
from shunter.ops import halves
from tests.live.ssh.bench import Bench, kinds, order, seen_until
from tests.live.ssh.farm import LACKING, Farm, FarmHost

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

BASH, TCSH, FISH, ZSH = (shutil.which(name) or "" for name in ("bash", "tcsh", "fish", "zsh"))
UNSHARE = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
N0 = NodeName("n0")


@dataclass(frozen=True)
class Account:
    """Who logs in to a host: the shell, what that runs at login, the home, lines for sshd."""

    shell: str = BASH
    at_login: tuple[tuple[str, str], ...] = ()
    home: str = ""
    sshd: str = ""


class Lab(Farm):
    """A farm whose hosts see the account of who logs in as a lab has it."""

    account = Account()

    def _configure(self, host: FarmHost, keys: Path) -> None:
        super()._configure(host, keys)
        path = host.folder / "sshd_config"
        home = self.account.home or host.home
        text = path.read_text().replace(f"SetEnv HOME={host.home}", f"SetEnv HOME={home}")
        path.write_text(f"{text}{self.account.sshd}\n")

    def _command(self, host: FarmHost) -> list[str]:
        account, passwd = self.account, host.folder / "passwd"
        lines = [line.split(":") for line in Path("/etc/passwd").read_text().splitlines()]
        for line in lines:
            if line[0] == self.user:
                line[5:] = [account.home or str(host.home), account.shell]
        passwd.write_text("".join(f"{':'.join(line)}\n" for line in lines))
        mounted = f'mount --bind {passwd} /etc/passwd && exec "$@"'
        return [*UNSHARE, mounted, "sshd", *super()._command(host)]


@pytest.fixture
def lab(folder: Path) -> Iterator[Bench]:
    """A host whose sshd is not started yet."""
    if LACKING:
        pytest.skip(LACKING)
    if os.geteuid() or subprocess.run([*UNSHARE, "true"], check=False, timeout=60).returncode:
        pytest.skip("needs root and a mount namespace to give a host another /etc/passwd")
    farm = Lab(folder / "farm", ("n0",))
    try:
        found = Bench(farm, folder)
        yield found
        found.clean()
    finally:
        farm.close()


def started(lab: Bench, account: Account) -> None:
    if not Path(account.shell).is_absolute():
        pytest.skip("needs tcsh, fish and zsh")
    assert isinstance(lab.farm, Lab)
    lab.farm.account = account
    for name, text in account.at_login:
        path = lab.farm["n0"].home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lab.farm.start("n0")


async def why_not(lab: Bench, host: SshHost, connect_s: float = 30.0) -> tuple[str, str]:
    """Return what `doctor` says is wrong with a host, and what to do."""
    access = lab.settings().access
    (found,) = await anyio.to_thread.run_sync(host_inventories, (host,), access, connect_s)
    assert found.found is None
    return halves(found.cause)


TALKS = "echo Welcome to the lab\necho '{\"id\": 1}'\n"
WORKS = {
    "bash": Account(BASH, ((".bashrc", TALKS),)),
    "zsh": Account(ZSH, ((".zshenv", TALKS),)),
    "tcsh": Account(TCSH, ((".tcshrc", f"{TALKS}setenv LAB 1\n"),)),
    "tcsh-with-lines-of-bash": Account(TCSH, ((".cshrc", "export A=1\nif [ -z x ]; then\n"),)),
    "fish": Account(FISH, ((".config/fish/config.fish", TALKS),)),
    "fish-with-lines-of-bash": Account(FISH, ((".config/fish/config.fish", "A=1\nfi\n"),)),
    "forced-shell": Account(BASH, sshd='ForceCommand echo policy; sh -c "$SSH_ORIGINAL_COMMAND"'),
}


@pytest.mark.parametrize("name", WORKS)
async def test_job_runs_whatever_the_login_shell_is(lab: Bench, name: str) -> None:
    """The folder is of the kind that shells split, expand or look up in their history."""
    started(lab, WORKS[name])
    host = replace(lab.host("n0"), base=f"{lab.farm['n0'].root}/it's !a $HOME")
    async with lab.opened(hosts=(host,)) as backend:
        assert backend.causes == {}
        await order(backend, lab.launching("n0", work_s=0.2))
        told = await seen_until(backend, AttemptExited)
    assert kinds([one for one in told if not isinstance(one, NodeUnreachable)]) == [
        AttemptStarted,
        AttemptExited,
    ]
    lab.assert_nothing_twice()


IN_THE_WAY = {
    "nologin": (Account("/usr/sbin/nologin"), "not available"),
    "false": (Account("/bin/false"), "with status 1"),
    "forced": (Account(sshd="ForceCommand /bin/true"), "with status 0"),
    "forced-menu": (Account(sshd="ForceCommand echo choose: 1, 2"), "choose: 1, 2"),
    "forced-sftp": (Account(sshd="ForceCommand internal-sftp"), "sftp connections only"),
    "exit-at-login": (Account(BASH, ((".bashrc", "exit 3\n"),)), "with status 3"),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
async def test_what_keeps_python_from_running_is_named_with_what_to_do(
    lab: Bench, name: str
) -> None:
    account, said = IN_THE_WAY[name]
    started(lab, account)
    what, mend = await why_not(lab, lab.host("n0"))
    assert what.startswith("host n0 lets us in, but runs something else than ")
    assert said in what
    assert all(each in mend for each in ("chsh -s", "ForceCommand", "command=", "~/.cshrc"))
    async with lab.opened() as backend:
        assert said in backend.causes[N0]


async def test_login_shell_that_is_not_there_is_looked_for_on_the_host(lab: Bench) -> None:
    started(lab, Account("/no/such/shell"))
    what, mend = await why_not(lab, lab.host("n0"))
    assert "does not accept" in what
    assert "a login shell that does not exist" in mend


async def test_command_that_never_answers_is_named_with_what_to_do(lab: Bench) -> None:
    started(lab, Account(sshd="ForceCommand sleep 8"))
    what, mend = await why_not(lab, lab.host("n0"), connect_s=4.0)
    assert "did not answer within 4 s" in what
    assert "ForceCommand" in mend


async def test_shell_that_reads_at_login_is_not_an_old_python(lab: Bench) -> None:
    started(lab, Account(BASH, ((".bashrc", "read answer\n"),)))
    what, mend = await why_not(lab, lab.host("n0"))
    assert "reads the input that is ours" in what
    assert "older" not in what + mend
    assert "terminal only" in mend


@pytest.mark.parametrize("line", ["yes y", "yes y >&2"])
async def test_shell_that_prints_without_end_is_not_read_without_end(lab: Bench, line: str) -> None:
    started(lab, Account(BASH, ((".bashrc", f"{line}\n"),)))
    what, mend = await why_not(lab, lab.host("n0"))
    assert "more than 1 MiB were printed before it" in what
    assert "~/.bashrc" in mend


async def test_home_that_cannot_be_written_to_asks_for_another_base(lab: Bench) -> None:
    started(lab, Account(BASH, home="/proc"))
    what, mend = await why_not(lab, replace(lab.host("n0"), base="~/.shunter"))
    assert what.startswith("host n0 cannot write to /proc/.shunter")
    assert "set base in [backend.ssh.hosts.n0]" in mend


@pytest.mark.parametrize("shell", [BASH, ZSH, TCSH, FISH])
async def test_python_that_is_not_in_the_path_is_to_be_named(lab: Bench, shell: str) -> None:
    started(lab, Account(shell))
    what, mend = await why_not(lab, replace(lab.host("n0"), python="python-of-nowhere"))
    assert "python-of-nowhere" in what
    assert mend == "install it, or name where it is, python = PATH in [backend.ssh.hosts.n0]"
