"""The daemon as a process: its sockets, its stops and starts, and who else may run."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from shunter.client import Client
from shunter.errors import RefusedError, ShunterError, UnreachableError
from tests.live.api.serving import PATIENCE_S, Served, awaited, environment

pytestmark = pytest.mark.live


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def second(served: Served, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shunter", "serve", str(served.config), *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_socket_and_tokens_are_for_their_owner_only(served: Served) -> None:
    assert mode(served.root / "s") == 0o600
    assert mode(served.root / "tokens") == 0o600


def test_socket_mode_is_as_configured(tmp_path: Path) -> None:
    with Served(tmp_path, server='socket_mode = "0666"'):
        assert mode(tmp_path / "s") == 0o666


def test_second_daemon_is_refused_on_the_socket_and_on_the_log(served: Served) -> None:
    on_socket = second(served)
    assert (on_socket.returncode, "another daemon listens" in on_socket.stderr) == (5, True)
    on_log = second(served, "--set", f"server.listen=unix:{served.root}/other")
    assert on_log.returncode == 1
    assert "log.db" in on_log.stderr
    with served.client() as client:
        assert client.submit(["true"]).result(PATIENCE_S) == 0


def test_socket_of_a_killed_daemon_is_taken_over(served: Served) -> None:
    assert served.end(signal.SIGKILL) == -signal.SIGKILL
    assert (served.root / "s").exists()
    with pytest.raises(UnreachableError), served.client() as client:
        client.daemon()
    served.start()
    with served.client() as client:
        assert client.daemon()["term"] == 2


def test_socket_of_another_program_is_left_alone(served: Served) -> None:
    served.end()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{served.root}/s")
        other.listen()
        found = second(served)
        assert (found.returncode, "another program" in found.stderr) == (5, True)
        assert (served.root / "s").exists()


def test_file_in_the_place_of_the_socket_is_left_alone(served: Served) -> None:
    served.end()
    (served.root / "s").write_text("mine", encoding="utf-8")
    found = second(served)
    assert (found.returncode, "is no socket" in found.stderr) == (2, True)
    assert (served.root / "s").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_daemon_and_no_job(served: Served, number: int) -> None:
    with served.client() as client:
        job = client.submit(["sh", "-c", "sleep 1; echo done"])
        awaited(lambda: job.state() == "running")
    assert served.end(number) == 0
    assert "stopped; 1 job runs on" in served.said()
    assert not (served.root / "s").exists()
    served.start()
    with served.client() as client:
        assert client.handle(job.id).result(PATIENCE_S) == 0
        assert b"".join(client.logs(job.id)) == b"done\n"
        assert [one["attempt"] for one in client.job(job.id)["attempts"]] == [1]


def test_who_waits_is_answered_by_the_next_daemon(served: Served) -> None:
    with served.client() as client, ThreadPoolExecutor() as threads:
        job = client.submit(["sh", "-c", "sleep 2; exit 3"])
        waiting = threads.submit(lambda: client.handle(job.id).wait(60))
        awaited(lambda: job.state() == "running")
        served.end(signal.SIGKILL)
        served.start()
        assert waiting.result(PATIENCE_S)["exit_code"] == 3


def test_same_key_at_the_same_time_submits_once(served: Served) -> None:
    def submit(_: int) -> str:
        with served.client() as client:
            return client.submit(["sleep", "30"], key="night").id

    with ThreadPoolExecutor(8) as threads:
        ids = set(threads.map(submit, range(8)))
    assert len(ids) == 1
    with served.client() as client:
        assert client.queue()["total"] == 1


def test_same_key_after_a_crash_submits_once(served: Served) -> None:
    with served.client() as client:
        first = client.submit(["sleep", "30"], key="night").id
        tasks = [one.id for one in client.submit_array(["true"], array=(0, 3, 1, None), key="all")]
    served.end(signal.SIGKILL)
    served.start()
    with served.client() as client:
        assert client.submit(["sleep", "30"], key="night").id == first
        again = client.submit_array(["true"], array=(0, 3, 1, None), key="all")
        assert [one.id for one in again] == tasks


def test_array_runs_no_more_tasks_at_once_than_it_may(served: Served) -> None:
    mine = "$DIR/$SHUNTER_ARRAY_INDEX"
    program = f"mkdir {mine}; ls $DIR | wc -l; sleep 0.3; rmdir {mine}"
    folder = served.root / "here"
    folder.mkdir()
    with served.client() as client:
        environment = {"DIR": str(folder), "PATH": os.environ["PATH"]}
        jobs = client.submit_array(
            ["sh", "-c", program], array=(0, 5, 1, 2), environment=environment, name="sweep"
        )
        assert [job.result(PATIENCE_S) for job in jobs] == [0] * 6
        counts = [int(b"".join(job.logs())) for job in jobs]
        specs = [job.describe()["spec"] for job in jobs]
    assert max(counts) <= 2
    assert {(spec["array"], spec["at_once"]) for spec in specs} == {(jobs[0].id, 2)}


def test_array_keeps_its_bound_and_uses_it_whatever_becomes_of_tasks(served: Served) -> None:
    """Goal: never more than two at once, and never fewer while tasks wait.

    Method: tasks run until they are told to end, some are cancelled, suspended and resumed.
    """
    waits = "while [ ! -e $DIR/$SHUNTER_ARRAY_INDEX ]; do sleep 0.02; done"

    def under_way() -> list[int]:
        rows = client.queue()["jobs"]
        return sorted(row["array_index"] for row in rows if row["where"])

    def settles(*indices: int) -> None:
        awaited(lambda: under_way() == [*indices])

    with served.client() as client:
        jobs = client.submit_array(
            ["sh", "-c", waits],
            array=(0, 6, 1, 2),
            environment={"DIR": str(served.root), "PATH": os.environ["PATH"]},
            suspend_mode="restart",
        )
        settles(0, 1)
        assert "2 tasks of its array may run at once" in served.run("show", jobs[4].id).stdout
        with pytest.raises(RefusedError, match="waits for its turn: 2 tasks of array"):
            client.resume(jobs[4].id)
        jobs[2].cancel()  # it waits, and makes no room for anybody
        (served.root / "1").touch()
        settles(0, 3)
        (served.root / "3").touch()
        settles(0, 4)  # the first one takes longer than all others
        client.suspend(jobs[0].id)
        settles(4, 5)
        client.resume(jobs[0].id)
        (served.root / "4").touch()
        settles(0, 5)  # the oldest first
        served.end(signal.SIGKILL)
        served.start()
        for index in (0, 5, 6):
            (served.root / str(index)).touch()
        ends = [job.wait(60)["state"] for job in jobs]
    assert ends == ["finished", "finished", "cancelled", *["finished"] * 4]
    assert served.run("replay", "--verify", str(served.root / "log.db")).returncode == 0


def test_values_of_variables_and_secrets_are_in_no_log(served: Served) -> None:
    with served.client() as client:
        job = client.submit(
            ["sh", "-c", 'echo "$PLAIN $TOKEN $0"; sleep 60', "header: hunter2hunter2"],
            environment={"PLAIN": "plain-value", "TOKEN": "hunter2hunter2"},
            secrets=["TOKEN"],
        )
        line = b"plain-value hunter2hunter2 header: hunter2hunter2\n"
        awaited(lambda: b"".join(job.logs()) == line)
        assert job.describe()["spec"]["command"][-1] == "header: {secret:TOKEN}"
        kept = served.root / "attempts" / "jobs" / job.id / "environment.json"
        assert mode(kept) == 0o600
        job.cancel()
        awaited(job.done)
        awaited(lambda: not kept.exists())
    served.end()
    for path in sorted(served.root.glob("log.db*")):
        assert b"hunter2" not in path.read_bytes()
        assert b"plain-value" not in path.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to call as somebody else")
def test_stranger_on_the_socket_may_look_but_not_touch(passable: Path) -> None:
    with Served(passable, server='socket_mode = "0666"') as served, served.client() as client:
        job = client.submit(["sh", "-c", "echo mine; sleep 30"])
        stranger = as_nobody(
            served,
            "client.daemon()['user']",
            "client.daemon()['is_admin']",
            f"client.cancel({job.id!r})",
            f"list(client.logs({job.id!r}))",
            "client.drain('n0')",
            "client.queue()['total']",
        )
    assert stranger == ["nobody", "False", "RefusedError", "RefusedError", "RefusedError", "1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to call as somebody else")
def test_socket_of_somebody_else_is_a_refusal(passable: Path) -> None:
    with Served(passable) as served:
        assert as_nobody(served, "client.daemon()") == ["RefusedError"]


def as_nobody(served: Served, *asks: str) -> list[str]:
    """Ask as the user nobody, in a process of its own; return what became of each request."""
    program = """
import os, sys
from shunter.client import Client, JobHandle  # all is imported that nobody may not read
with Client(sys.argv[1]) as client:
    client.daemon()
client = Client(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for ask in sys.argv[2:]:
    try:
        print(eval(ask))
    except Exception as error:
        print(type(error).__name__)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, served.url, *asks],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, to make a certificate")
def test_tls_is_spoken_where_it_is_configured(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "1", "-subj", "/CN=localhost", "-keyout", str(key)),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    tls = f'[server.tls]\ncertificate = "{certificate}"\nkey = "{key}"'
    with Served(tmp_path, server=tls) as served:
        assert served.tcp.startswith("https://127.0.0.1:")
        token = served.token
        with Client(served.tcp, token=token, ca_file=str(certificate)) as client:
            assert client.submit(["true"]).result(PATIENCE_S) == 0
        with pytest.raises(UnreachableError), Client(served.tcp, token=token) as stranger:
            stranger.daemon()


def test_full_disk_stops_the_daemon_and_the_next_one_goes_on(served: Served) -> None:
    served.end()
    served.start(file_bytes_most=(served.root / "log.db").stat().st_size + 200_000)
    done = []
    with served.client() as client, suppress(ShunterError):
        while True:
            done.append(client.submit(["true"], name="x" * 200).id)
    assert served.process is not None
    assert served.process.wait(60) == 1
    assert "error:" in served.said()
    assert "Traceback" not in served.said()
    served.start()
    with served.client() as client:
        for job_id in done:
            assert client.handle(job_id).result(PATIENCE_S) == 0


def test_history_and_show_tell_the_same_before_and_after_a_restart(served: Served) -> None:
    with served.client() as client:
        ended = client.submit(["sh", "-c", "exit 3"], name="ended")
        ended.wait(30)
        going = client.submit(["sleep", "60"], name="going")
        awaited(lambda: going.state() == "running")
        before = (client.history()["jobs"], ended.describe()["attempts"], client.job(going.id))
        service_gpu_s = client.job(ended.id)["service_gpu_s"]
        assert service_gpu_s > 0
    served.end()
    served.start()
    with served.client() as client:
        after = (client.history()["jobs"], client.job(ended.id)["attempts"], client.job(going.id))
        assert client.job(ended.id)["service_gpu_s"] == service_gpu_s
    assert after[:2] == before[:2]
    assert after[2]["attempts"] == before[2]["attempts"]


def test_job_of_an_earlier_daemon_is_followed_by_the_next(served: Served) -> None:
    """Goal: what is read of it once is brought up to date by what follows."""
    with served.client() as client:
        job = client.submit(["sleep", "60"], suspend_mode="restart")
        awaited(lambda: job.state() == "running")
    served.end(signal.SIGKILL)
    served.start()
    again = served.handle(job.id)
    assert [one["attempt"] for one in again.describe()["attempts"]] == [1]
    with served.client() as client:
        client.suspend(job.id)
        awaited(lambda: again.state() == "held")
        [only] = again.describe()["attempts"]
        assert (only["ended_by"], only["released_at"] is not None) == ("suspended", True)
        client.resume(job.id)
        awaited(lambda: len(again.describe()["attempts"]) == 2)
        again.cancel()
    assert again.wait(60)["state"] == "cancelled"
    assert [one["attempt"] for one in again.describe()["attempts"]] == [1, 2]


def test_service_manager_is_told_when_it_takes_commands_and_when_it_stops(
    served: Served,
) -> None:
    served.end()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{served.root}/n")
        manager.settimeout(30)
        served.start(NOTIFY_SOCKET=f"{served.root}/n")
        assert manager.recv(100) == b"READY=1"
        served.end()
        assert manager.recv(100) == b"STOPPING=1"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start jobs as somebody else")
def test_daemon_of_root_starts_jobs_as_who_submitted_them(passable: Path) -> None:
    with Served(passable, server='socket_mode = "0666"') as served, served.client() as client:
        ours = client.submit(["id", "-un"])
        job_id = as_nobody(served, "client.submit(['id', '-un']).id")[0]
        assert (ours.result(PATIENCE_S), client.handle(job_id).result(PATIENCE_S)) == (0, 0)
        printed = [b"".join(client.logs(each)) for each in (ours.id, job_id)]
        assert printed == [b"root\n", b"nobody\n"]
        theirs = as_nobody(
            served, f"b''.join(client.logs({job_id!r}))", f"list(client.logs({ours.id!r}))"
        )
    assert theirs == ["b'nobody\\n'", "RefusedError"]


@pytest.fixture
def passable(scratch: Path) -> Path:
    """A folder in which others reach what they may, without listing it.

    It is not among those of pytest, which each start of a pytest closes to others again.
    """
    scratch.chmod(0o711)
    return scratch


def test_example_of_the_client_prints_what_it_says(served: Served) -> None:
    script = Path(__file__).parents[3] / "examples" / "live" / "client.py"
    ran = subprocess.run(
        [sys.executable, str(script)],
        env=environment(SHUNTER_URL=served.url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = ["0 failed with exit code 1", "1 10.0", "2 5.0", "3 3.3333333333333335"]
    assert (ran.stderr, ran.stdout.splitlines()) == ("", lines)


def test_decision_tells_the_policy_that_made_it(served: Served) -> None:
    with served.client() as client:
        client.submit(["true"]).result(PATIENCE_S)
    served.end()
    text = served.config.read_text(encoding="utf-8")
    served.config.write_text(text.replace("[policy]", '[policy]\nname = "las"'), encoding="utf-8")
    served.start()
    with served.client() as client:
        client.submit(["true"]).result(PATIENCE_S)
        rounds = client.events(kind="AllocationChanged")["events"]
        assert [client.decision(event["seq"])["policy"] for event in rounds] == ["fifo", "las"]
        assert client.daemon()["policy"] == "las"
