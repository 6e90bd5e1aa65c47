"""The command line against a real daemon: what people type, what is printed, how it exits."""

import getpass
import json
import os
import pty
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shunter.errors import RefusedError, UsageError
from tests.live.api.serving import PATIENCE_S, Served, awaited, environment, in_the_foreground

pytestmark = pytest.mark.live

SPREADING = ("max_level", "shapes", "split_may_change")


def submitted(served: Served, *words: str) -> str:
    found = served.run("submit", "--parsable", *words)
    assert found.returncode == 0, found.stderr
    assert re.fullmatch(r"j\d+\n", found.stdout)
    return found.stdout.strip()


@pytest.mark.parametrize(("program", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_wait_exits_with_the_code_of_the_job(shared: Served, program: str, code: int) -> None:
    assert shared.run("submit", "--wait", "--", "sh", "-c", program).returncode == code


def test_wait_says_that_the_job_itself_waits(shared: Served) -> None:
    first = submitted(shared, "--", "sleep", "5")
    words = ("submit", "--wait", "--after", first, "--")
    late = shared.run(*words, "echo", "done")
    job_id = late.stdout.split()[1]
    assert late.stdout == f"submitted {job_id}\ndone\n"
    assert late.stderr.splitlines()[0] == (
        f"{job_id} has not started: `shunter why {job_id}` says why; its output follows"
    )
    assert "not started" not in shared.run(*words, "sleep", "4").stderr


def test_job_that_a_signal_killed_is_told_apart_from_one_that_exits_alike(shared: Served) -> None:
    said = {}
    for program in ("kill -9 $$", "kill -SEGV $$", "exit 137"):
        name = program.split()[1]
        waited = shared.run("submit", "--wait", "--name", name, "--", "sh", "-c", program)
        job_id = waited.stdout.split()[1]
        shown = shared.run("show", job_id).stdout
        why = shared.run("why", job_id).stdout
        past = next(
            row for row in shared.run("history").stdout.splitlines() if row.startswith(f"{job_id} ")
        )
        said[name] = [
            next((word for word in ("SIGKILL", "SIGSEGV") if f"({word})" in text), "")
            for text in (waited.stderr, shown, why, past)
        ]
    assert said == {"-9": ["SIGKILL"] * 4, "-SEGV": ["SIGSEGV"] * 4, "137": [""] * 4}
    assert (
        "failed: killed by signal 9 (SIGKILL)"
        in shared.run("submit", "--wait", "--", "sh", "-c", "kill -9 $$").stderr
    )


def test_script_says_its_options_and_the_command_line_wins(shared: Served) -> None:
    script = shared.root / "train.sh"
    script.write_text(
        '#!/bin/bash\n#SHUNTER --gpus 2 --name "from script"\n\n#SHUNTER --time 1h # a comment\n'
        'echo "$0 $1 $CUDA_VISIBLE_DEVICES $KIND"\n#SHUNTER --gpus 4\n',
        encoding="utf-8",
    )
    job_id = submitted(shared, "--name", "from line", "-e", "KIND=a b", "train.sh", "--lr")
    script.write_text("echo something else\n", encoding="utf-8")
    awaited(shared.handle(job_id).done)
    spec = shared.handle(job_id).describe()["spec"]
    assert (spec["name"], spec["gpus"], spec["time_limit_us"]) == ("from line", 2, 3_600_000_000)
    words = shared.run("logs", job_id).stdout.split(" ", 2)
    assert words[0] == str(script)
    assert words[1] == "--lr"
    assert words[2].endswith("a b\n")


def test_script_and_command_line_say_how_a_job_may_be_spread(shared: Served) -> None:
    script = shared.root / "spread.sh"
    script.write_text("#!/bin/sh\n#SHUNTER -g 2 --one-server --shape 2 --shape 1+1\ntrue\n")
    near = submitted(shared, "spread.sh")
    free = submitted(shared, "-g", "2", "--max-level", "rack", "--split-may-change", "--", "true")
    specs = [shared.handle(job_id).describe()["spec"] for job_id in (near, free)]
    told = [[spec.get(name) for name in SPREADING] for spec in specs]
    assert told == [["server", [[2], [1, 1]], None], ["rack", None, True]]
    shown = shared.run("show", near).stdout
    assert "within one server, as 2 or 1+1" in shown
    assert "in any split later" in shared.run("show", free).stdout


def test_client_says_how_a_job_may_be_spread(shared: Served) -> None:
    with shared.client() as client:
        job = client.submit(
            ["true"], gpus=2, max_level="server", shapes=[[2]], split_may_change=True
        )
        with pytest.raises(UsageError, match="make up the 2"):
            client.submit(["true"], gpus=2, shapes=[[2, 2]])
        sleeps = client.submit(["sleep", "60"])
        with pytest.raises(RefusedError, match="nothing is to discard"):
            client.discard_checkpoint(sleeps.id)
        client.cancel(sleeps.id)
        spec = client.job(job.id)["spec"]
    assert [spec.get(name) for name in SPREADING] == ["server", [[2]], True]


def test_program_gets_the_folder_and_variables_of_who_submits(shared: Served) -> None:
    (shared.root / "here").mkdir()
    job_id = submitted(shared, "-D", "here", "--export", "none", "-e", "A=1", "--", "env")
    assert shared.handle(job_id).result(PATIENCE_S) == 0
    printed = shared.run("logs", job_id).stdout
    assert "\nA=1\n" in f"\n{printed}"
    assert "NO_COLOR" not in printed
    assert shared.handle(job_id).describe()["spec"]["directory"] == str(shared.root / "here")


def test_secret_of_the_environment_is_kept_out_of_the_command(shared: Served) -> None:
    found = shared.run(
        *("submit", "--parsable", "--secret", "TOKEN", "--"),
        *("sh", "-c", 'echo "$0"; echo bye', "x hunter2hunter2"),
        TOKEN="hunter2hunter2",
    )
    job_id = found.stdout.strip()
    assert shared.handle(job_id).result(PATIENCE_S) == 0
    assert shared.run("logs", job_id).stdout == "x hunter2hunter2\nbye\n"
    shown = shared.run("show", job_id).stdout
    assert "{secret:TOKEN}" in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("submit", "--gpus", "5", "--", "true"), 5, "can never run here"),
        (("submit", "--memory", "12", "--", "true"), 2, "16G"),
        (("submit", "--time", "60", "--", "true"), 2, "90s"),
        (("submit", "--array", "5-1", "--", "true"), 2, "no task"),
        (("submit", "--after", "j99999", "--", "true"), 3, "j99999"),
        (("submit", "--env", "NOT_SET_HERE", "--", "true"), 2, "NOT_SET_HERE"),
        (("submit", "--queue", "closed", "--", "true"), 5, "closed"),
        (("submit", "--suspend-mode", "often", "--", "true"), 2, "suspend_mode"),
        (("submit", "--shape", "2x2", "--", "true"), 2, "2+2"),
        (("submit", "--gpus", "3", "--shape", "2+2", "--", "true"), 2, "make up the 3"),
        (("submit", "--gpus", "4", "--shape", "2+2", "--", "true"), 5, "can never run here"),
        (("submit", "--max-level", "room", "--", "true"), 2, "max_level"),
        (("submit", "--one-server", "--max-level", "rack", "--", "true"), 2, "one of them"),
        (("discard-checkpoint", "j99999"), 3, "j99999"),
        (("submit", "no-such-program-or-script"), 3, "neither"),
        (("submit",), 2, "nothing to run"),
        (("show", "j99999"), 3, "j99999"),
        (("why", "j99999"), 3, "j99999"),
        (("logs", "j99999"), 3, "j99999"),
        (("cancel", "j99999"), 3, "j99999"),
        (("nodes", "drain", "n99"), 3, "n99"),
        (("submit", "--type", "a100", "--", "true"), 5, "of type a100); types are "),
        (("queue", "--state", "nonsense"), 2, "no such state: 'nonsense': expected waiting, "),
        (("queue", "-q", "nope"), 3, "there is no queue 'nope': expected "),
        (("logs", ""), 2, "expected an id or a name, and it is empty"),
        (("queue", "--url", "unix:/nowhere/at.all"), 4, "shunter serve"),
        (("why", "112", "--url", "unix:/nowhere/at.all"), 4, "--log LOG asks a log"),
        (("queue", "--url", "ftp://a"), 2, "unix:PATH"),
    ],
)
def test_failure_says_what_and_exits_with_its_code(
    shared: Served, words: tuple[str, ...], code: int, said: str
) -> None:
    found = shared.run(*words)
    assert (found.returncode, said in found.stderr) == (code, True), found.stderr
    assert found.stdout == ""
    assert "Traceback" not in found.stderr


def test_nothing_running_says_how_to_start_it(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "shunter", "queue"],
        env=environment(XDG_RUNTIME_DIR=str(tmp_path), HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    if "/run/shunter" in found.stdout:
        pytest.skip("a daemon of this machine is running")
    assert (found.returncode, "`shunter up`" in found.stderr) == (4, True)


def test_dry_run_submits_nothing(shared: Served) -> None:
    before = json.loads(shared.run("history", "--json").stdout)["total"]
    found = shared.run("submit", "--dry-run", "--", "true")
    assert (found.returncode, "accepted" in found.stdout) == (0, True)
    assert json.loads(shared.run("history", "--json").stdout)["total"] == before


def test_lists_show_and_json_says_the_same(served: Served) -> None:
    running = submitted(served, "-g", "4", "--name", "big", "--", "sleep", "60")
    waiting = submitted(served, "-g", "2", "--", "sleep", "60")
    awaited(lambda: served.handle(running).state() == "running")
    found = json.loads(served.run("queue", "--json").stdout)
    assert [(row["id"], row["state"]) for row in found["jobs"]] == [
        (running, "running"),
        (waiting, "waiting"),
    ]
    shown = served.run("queue", "--explain")
    assert re.search(
        rf"^{running} +big +\w+ +4 +running +[\d:]+ +n0\[0-3\] +–$", shown.stdout, re.MULTILINE
    )
    assert re.search(rf"^{waiting}: .*needs 2, 0 free.*{running}", shown.stdout, re.MULTILINE)
    assert shown.stderr == "2 jobs: 1 running, 1 waiting\n"
    nodes = json.loads(served.run("nodes", "--json").stdout)
    assert [gpu["jobs"] for gpu in nodes["nodes"][0]["gpus"]] == [[running]] * 4
    why = served.run("why", waiting)
    assert f"{waiting} has waited" in why.stdout
    assert "T+" not in why.stdout
    assert json.loads(served.run("show", running, "--json").stdout)["row"]["where"] == "n0[0-3]"


def test_queue_is_listed_in_the_order_of_the_policy(served: Served) -> None:
    blocker = submitted(served, "-g", "4", "--", "sleep", "60")
    awaited(lambda: served.handle(blocker).state() == "running")
    late = submitted(served, "-g", "4", "--", "true")
    soon = submitted(served, "-g", "4", "--priority", "5", "--", "true")
    blocked = submitted(served, "--after", late, "--", "true")
    rows = json.loads(served.run("queue", "--json").stdout)["jobs"]
    assert [(row["id"], row["rank"]) for row in rows] == [
        (blocker, None),
        (soon, 1),
        (late, 2),
        (blocked, None),
    ]
    assert f"{soon}, {late}: ranks 1 to 2; " in served.run("queue", "--explain").stdout


def test_jobs_are_steered_by_command(served: Served) -> None:
    job_id = submitted(served, "--suspend-mode", "restart", "--", "sleep", "60")
    awaited(lambda: served.handle(job_id).state() == "running")
    assert served.run("suspend", job_id).stdout == f"{job_id} asked to suspend\n"
    awaited(lambda: served.handle(job_id).state() == "held")
    assert served.run("priority", job_id, "--", "-3").returncode == 0
    assert served.handle(job_id).describe()["row"]["priority"] == -3
    assert served.run("resume", job_id).returncode == 0
    awaited(lambda: served.handle(job_id).state() == "running")
    both = served.run("cancel", "j77", job_id)
    assert (both.returncode, both.stdout) == (3, f"{job_id} asked to end\n")
    awaited(served.handle(job_id).done)
    row = json.loads(served.run("history", "--json").stdout)["jobs"][0]
    assert (row["id"], row["state"], row["attempts"]) == (job_id, "cancelled", 2)


def full(served: Served) -> list[str]:
    """Return 12 jobs on four GPUs, of which four run, and one that waits for the last of these."""
    command = ("sh", "-c", f"echo x >> {served.root}/commands; exec sleep 1000")
    served.run("submit", "--gpus", "1", "--array", "1-12", "--", *command)
    after = submitted(served, "--gpus", "1", "--after", "j12:any", "--", *command)
    with served.client() as client:
        awaited(lambda: all(client.job(f"j{one}")["state"] == "running" for one in range(1, 5)))
    return [*(f"j{one}" for one in range(1, 13)), after]


@pytest.mark.parametrize("order", ["cancel", "suspend"])
def test_jobs_that_get_an_order_together_start_on_no_gpus_of_each_other(
    served: Served, order: str
) -> None:
    """The jobs on GPUs are named first, and leave them; those that wait never get any."""
    jobs = full(served)
    said = served.run(order, *jobs).stdout.splitlines()
    assert [line.split()[0] for line in said] == jobs
    gone = "cancelled" if order == "cancel" else "held"
    with served.client() as client:
        awaited(lambda: client.job(jobs[0])["state"] in (gone, "suspended"))
        awaited(lambda: not [one for one in client.queue()["jobs"] if one["state"] == "running"])
        begun = {event["job_id"] for event in client.events(kind="AttemptStarted")["events"]}
    assert begun == set(jobs[:4])
    assert (served.root / "commands").read_text("utf-8") == "x\n" * 4


def test_order_for_several_jobs_says_which_could_not_get_it(served: Served) -> None:
    job_id = submitted(served, "--", "sleep", "1000")
    found = served.run("cancel", "j7", job_id)
    assert (found.returncode, found.stdout) == (3, f"{job_id} asked to end\n")
    assert "there is no job j7" in found.stderr
    with served.client() as client:
        awaited(lambda: client.job(job_id)["state"] == "cancelled")


def test_show_of_an_ended_job_has_the_last_line_it_printed(served: Served) -> None:
    failed = submitted(served, "--", "sh", "-c", "echo fine; echo; echo 'no such file' >&2; exit 3")
    finished = submitted(served, "--", "sh", "-c", "echo warning >&2; echo fine; echo loss 0.25")
    quiet = submitted(served, "--", "true")
    awaited(lambda: all(served.handle(each).done() for each in (failed, finished, quiet)))

    shown = [served.run("show", each).stdout for each in (failed, finished, quiet)]

    assert re.search(r"^last line +no such file$", shown[0], re.MULTILINE)
    assert re.search(r"^last line +loss 0.25$", shown[1], re.MULTILINE)
    assert "last line" not in shown[2]
    with served.client() as client:
        assert b"".join(client.logs(finished, tail=5)) == b"0.25\n"
        with pytest.raises(UsageError, match="tail counts bytes of one stream"):
            [*client.logs(finished, stream="both", tail=5)]


def test_logs_are_followed_over_attempts_to_the_end(served: Served) -> None:
    program = "echo attempt $SHUNTER_ATTEMPT; if [ $SHUNTER_ATTEMPT = 1 ]; then sleep 60; fi"
    job_id = submitted(served, "--suspend-mode", "restart", "--", "sh", "-c", program)
    following = subprocess.Popen(
        [sys.executable, "-m", "shunter", "logs", "-f", job_id, "--url", served.url],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "attempt 1\n"
    served.run("suspend", job_id)
    awaited(lambda: served.handle(job_id).state() == "held")
    served.run("resume", job_id)
    assert following.communicate(timeout=60)[0] == "attempt 2\n"
    assert following.returncode == 0
    assert served.run("logs", job_id, "--attempt", "1").stdout == "attempt 1\n"
    assert served.run("logs", job_id, "--since", "1h").stdout == "attempt 1\nattempt 2\n"
    last = served.run("logs", job_id, "--since", "1h", "--attempt", "2")
    assert last.stdout == "attempt 2\n"
    assert served.run("logs", job_id, "--rank", "1").returncode == 3


def test_stopped_job_is_told_apart_and_goes_on(served: Served) -> None:
    job_id = submitted(served, "--suspend-mode", "stop", "--", "sleep", "60")
    awaited(lambda: served.handle(job_id).state() == "running")
    assert served.run("suspend", job_id).returncode == 0
    awaited(lambda: served.handle(job_id).state() == "stopped")
    assert "stopped: `shunter resume` lets it go on" in served.run("show", job_id).stdout
    story = served.run("why", job_id).stdout
    assert f"{job_id} has been stopped on n0[0]" in story
    assert " held" not in story
    assert served.run("queue", "--state", "stopped", "--json").stdout.count(f'"{job_id}"') == 1
    assert served.run("resume", job_id).returncode == 0
    awaited(lambda: served.handle(job_id).state() == "running")


def test_job_that_waits_for_a_stopped_one_is_told_how_that_goes_on(served: Served) -> None:
    stopped = submitted(served, "--gpus", "4", "--suspend-mode", "stop", "--", "sleep", "1000")
    awaited(lambda: served.handle(stopped).state() == "running")
    assert served.run("suspend", stopped).returncode == 0
    awaited(lambda: served.handle(stopped).state() == "stopped")
    waiting = submitted(served, "--gpus", "1", "--", "true")
    said = awaited(lambda: (text := served.run("why", waiting).stdout) and stopped in text and text)
    assert re.search(rf"waits for +{stopped} \(stopped on ", said)
    assert f"`shunter resume {stopped}` lets it go on, `shunter cancel {stopped}` ends it" in said
    assert f"{stopped}: stopped on " in served.run("why", waiting, "--long").stdout


def test_logs_since_an_instant_are_those_printed_after_it(served: Served) -> None:
    """Method: a job goes on printing once an instant is over that its supervisor has seen."""
    program = (
        "echo old; printf half; while [ ! -e go ]; do sleep 0.05; done; echo ' line'; echo new"
    )
    job_id = submitted(served, "--", "sh", "-c", program)
    times = served.root / f"attempts/jobs/{job_id}/1/stdout-times.0"
    awaited(lambda: times.exists() and times.read_text().endswith(" 8\n"))
    since = datetime.now(UTC) + timedelta(seconds=1)
    awaited(lambda: datetime.now(UTC) > since)
    told = ("logs", job_id, "--since", since.isoformat())
    assert served.run(*told).stdout == "half"
    following = subprocess.Popen(
        [sys.executable, "-m", "shunter", *told, "-f", "--url", served.url],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    (served.root / "go").touch()
    assert following.communicate(timeout=60)[0] == "half line\nnew\n"
    assert served.run(*told).stdout == "half line\nnew\n"
    assert served.run("logs", job_id).stdout == "old\nhalf line\nnew\n"
    long_after = (since + timedelta(days=1)).isoformat()
    assert served.run("logs", job_id, "--since", long_after).stdout == ""
    assert served.run("logs", "-f", job_id, "--since", long_after).stdout == ""


def test_ranks_of_several_servers_say_which_they_are(tmp_path: Path) -> None:
    with Served(tmp_path, nodes="n[1-2]") as served:
        program = "echo first $RANK; sleep 0.3; printf last"
        job_id = submitted(served, "-g", "8", "--", "sh", "-c", program)
        expected = [
            f"(n{rank + 1}, rank={rank}) {word}"
            for rank in (0, 1)
            for word in (f"first {rank}", "last")
        ]
        followed = served.run("logs", "-f", job_id).stdout.splitlines()
        assert sorted(followed) == sorted(expected)
        assert served.run("logs", job_id).stdout.splitlines() == expected
        assert served.run("logs", job_id, "--rank", "1").stdout == "first 1\nlast"
        assert served.run("logs", job_id, "--rank", "2").returncode == 3


def test_dependency_lets_a_job_start_or_cancels_it(served: Served) -> None:
    first = submitted(served, "--", "sh", "-c", "sleep 0.5; exit 1")
    ok = submitted(served, "--after", first, "--", "true")
    anyhow = submitted(served, "--after", f"{first}:any", "--", "true")
    awaited(served.handle(anyhow).done)
    assert (served.handle(ok).state(), served.handle(anyhow).state()) == (
        "cancelled",
        "finished",
    )
    assert served.handle(ok).describe()["cause"] == "dependency"
    needed = f"it needs job {first} to end well, which ended as failed (exit 1)"
    assert f" dependency: {needed}\n" in served.run("show", ok).stdout
    assert f"(dependency: it needs {first} to end well, which ended as failed)" in (
        served.run("why", ok).stdout
    )


def test_token_and_url_lead_over_tcp(shared: Served) -> None:
    without = shared.run("queue", "--url", shared.tcp)
    assert (without.returncode, "SHUNTER_TOKEN" in without.stderr) == (5, True)
    tokens = str(shared.root / "tokens")
    by_file = shared.run("queue", "--url", shared.tcp, SHUNTER_TOKEN_FILE=tokens)
    by_value = shared.run("queue", "--url", shared.tcp, SHUNTER_TOKEN=shared.token)
    assert (by_file.returncode, by_value.returncode) == (0, 0)


def test_doctor_and_init_agree_on_this_machine(tmp_path: Path) -> None:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "shunter", *words],
            env=environment(XDG_RUNTIME_DIR=str(tmp_path)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("init", "--local", "--gpus", "2").returncode == 0
    assert run("config", "validate", "shunter.toml").returncode == 0
    again = run("init", "--local", "--gpus", "2")
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    found = json.loads(run("doctor", "shunter.toml", "--json").stdout)["findings"]
    states = {one["subject"]: one["state"] for one in found}
    assert set(states) >= {"python", "sqlite", "gpus", "memory", "users", "disk", "boot", "socket"}
    assert (states["python"], states["sqlite"]) == ("good", "good")
    assert all(one["mend"] for one in found if one["state"] != "good")


def test_terminal_shows_the_first_rows_and_how_many_there_are(served: Served) -> None:
    with served.client() as client:
        client.submit(["sleep", "60"], gpus=4)
        client.submit_many(["true"], gpus=4, array=(0, 248, 1, None))
    screen, ours = pty.openpty()
    listing = subprocess.Popen(
        [sys.executable, "-m", "shunter", "queue", "--url", served.url],
        env=environment(),
        stdout=ours,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(ours)
    printed = read_all(screen)
    _, said = listing.communicate(timeout=60)
    assert len(re.findall(r"^j\d+ ", printed, re.MULTILINE)) == 200
    assert "250 jobs" in said
    assert "50 more are not shown" in said
    piped = served.run("queue")
    assert len(re.findall(r"^j\d+ ", piped.stdout, re.MULTILINE)) == 250


def test_output_of_a_job_commands_no_terminal_and_is_whole_in_a_pipe(served: Served) -> None:
    """A title, a question to the terminal, an 8-bit escape, a letter cut in two, progress."""
    said = r"\0033]0;evil\0007 \0033[6n \0302\0233 \0233 50%\r100% \0303\0244\n"
    job = submitted(served, "--", "printf", "%b", said)
    served.run("wait", job)
    screen, ours = pty.openpty()
    printing = subprocess.Popen(
        [sys.executable, "-m", "shunter", "logs", job, "--url", served.url],
        env=environment(),
        stdout=ours,
        stderr=subprocess.DEVNULL,
    )
    os.close(ours)
    printed = read_all(screen)
    printing.wait(timeout=60)
    assert printed.strip() == r"\x1b]0;evil\x07 \x1b[6n \x9b \x9b 50%" + "\r100% ä"
    piped = subprocess.run(
        [sys.executable, "-m", "shunter", "logs", job, "--url", served.url],
        env=environment(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert piped.stdout == b"\033]0;evil\007 \033[6n \302\233 \233 50%\r100% \303\244\n"


def test_watching_goes_on_until_it_is_interrupted(served: Served) -> None:
    with in_the_foreground():
        watching = subprocess.Popen(
            [sys.executable, "-m", "shunter", "queue", "-w", "--json", "--url", served.url],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["total"] == 0
    submitted(served, "--", "sleep", "60")
    while json.loads(watching.stdout.readline())["total"] == 0:
        pass
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=30)
    assert b"Traceback" not in said


def read_all(screen: int) -> str:
    """Return what was printed to a terminal that is closed now."""
    found = b""
    while True:
        try:
            piece = os.read(screen, 65_536)
        except OSError:
            piece = b""
        if not piece:
            os.close(screen)
            return found.decode()
        found += piece


# Two pairs on switches of their own, as `nvidia-smi topo -m` prints them; sysfs has no such GPUs.
TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPIX\tSYS\tSYS\t0\t0
GPU1\tPIX\t X \tSYS\tSYS\t0\t0
GPU2\tSYS\tSYS\t X \tPIX\t1\t1
GPU3\tSYS\tSYS\tPIX\t X \t1\t1
"""
NVIDIA_SMI = """\
#!/bin/sh
if [ "$1" = topo ]; then cat FOLDER/topology; exit; fi
for number in 0 1 2 3; do
    echo "$number, GPU-$number, Tesla V100, 0000FFFF:4$number:00.0, 7, 9, 9"
done
"""


def test_picture_shows_the_map_that_was_found_and_where_the_config_contradicts_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "topology").write_text(TOPOLOGY)
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI.replace("FOLDER", str(tmp_path)))
    (tmp_path / "nvidia-smi").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    daemon = Served(tmp_path)
    try:
        daemon.start(PATH=path)
        picture = daemon.run("nodes", "--topology").stdout.splitlines()
        assert picture[1:] == [
            "  socket  switch  0 .  1 .",
            "  socket  switch  2 .  3 .",
            "  CPUs    0 for GPUs 0-1, 1 for GPUs 2-3",
            "  map     by nvidia-smi of the server",
        ]
        daemon.end()
        text = daemon.config.read_text(encoding="utf-8")
        given = text.replace("gpus = 4", "gpus = 4\nswitch_gpus = [[0, 3], [1, 2]]", 1)
        daemon.config.write_text(given, encoding="utf-8")
        daemon.start(PATH=path)
        picture = daemon.run("nodes", "--topology").stdout.splitlines()
        (node,) = json.loads(daemon.run("nodes", "--json").stdout)["nodes"]
        assert picture[1:3] == ["  switch  1 .  2 .", "  switch  0 .  3 ."]
        assert node["map_by"] == "config"
        (note,) = node["map_notes"]
        assert note.startswith("switches are [[0, 3], [1, 2]] by the config, and [[0, 1], [2, 3]]")
        assert f"warning: n0: {note}" in daemon.said()
        assert picture[-1] == f"  note    {note}"
    finally:
        daemon.__exit__()


def test_gpu_is_quarantined_and_released_by_its_name(served: Served) -> None:
    def said(*words: str) -> str:
        found = served.run("nodes", *words)
        assert (found.returncode, found.stderr) == (0, "")
        return found.stdout

    before = said()
    assert said("quarantine", "n0[1]") == "n0[1] takes no new jobs\n"
    *rows, last = said().splitlines()
    assert last == f"n0: GPU 1 is quarantined: by {getpass.getuser()}"
    assert rows[1].split()[1:5] == ["up", "gpu", "4", "3"]
    assert "  1 quarantined  2 ." in said("--topology")
    assert said("release", "n0[1]") == "n0[1] takes jobs again\n"
    assert said() == before
    assert json.loads(said("quarantine", "n0[1]", "--json"))["subject"] == "n0[1]"
    for words, code, told in (
        (["quarantine", "n0[1]"], 5, "GPU 1 of node n0 is quarantined already"),
        (["release", "n0[2]"], 5, "GPU 2 of node n0 is not quarantined"),
        (["quarantine", "n0[4]"], 3, "no GPU 4"),
        (["quarantine", "n0"], 2, "expected a server and one of its GPUs, such as gpu01[2]"),
    ):
        refused = served.run("nodes", *words)
        assert (refused.returncode, told in refused.stderr) == (code, True), refused.stderr
