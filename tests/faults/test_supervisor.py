"""What jobs do to their supervisor, and what is left of them: real processes, real kill -9."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shunter.backends.node import (
    attempts,
    command,
    processes,
    put,
    read_journal,
    told_to_leave_by,
    uptime_ns,
    write_beat,
)
from tests.faults.supervised import Machine, is_alive, machine_at, wait_for
from tests.live.ssh.farm import descendants

pytestmark = pytest.mark.live

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS
FORKS_AWAY = """
import os, time
if os.fork() == 0:
    os.setsid()
    stray = os.fork()
    if stray == 0:
        time.sleep(60)
    else:
        print(stray, "up", flush=True)
    os._exit(0)
os.wait()
"""
LEAVES = """
import os, sys, time
print("up", flush=True)
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.005)
with open(os.environ["SHUNTER_CHANNEL"], "w") as channel:
    channel.write('{"what": "acknowledged"}\\n{"what": "saved", "checkpoint": "c", "step": 7}\\n')
time.sleep(0.05)
sys.exit(75)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path) as found:
        yield found


@pytest.mark.parametrize("code", [0, 3])
def test_job_that_exits_at_once_leaves_its_code(machine: Machine, code: int) -> None:
    answer = machine.starts(machine.order(f"raise SystemExit({code})"))
    assert answer == {"answer": "started"}
    status = machine.status()
    assert (status["code"], status["suspended"], status["why"]) == (code, False, "")


def test_command_that_is_not_there_is_an_exit_127_that_says_so(machine: Machine) -> None:
    machine.starts(machine.ordering(["no-such-command-anywhere"]))
    assert machine.status()["code"] == 127
    assert "no-such-command-anywhere" in (machine.folder() / "stderr.0").read_text()


def test_job_that_ignores_sigterm_is_killed_after_its_grace(machine: Machine) -> None:
    machine.starts(machine.order(DEAF))
    machine.said("up")
    machine.sends("terminate")
    status = machine.status()
    assert (status["code"], status["why"]) == (128 + signal.SIGKILL, "terminate")


def test_process_that_forked_away_goes_with_its_job(machine: Machine) -> None:
    machine.starts(machine.order(FORKS_AWAY + "\ntime.sleep(60)"))
    stray = int(machine.said("up").split()[0])
    assert is_alive(stray)
    machine.sends("terminate")
    machine.status()
    assert not is_alive(stray)


def test_process_that_outlives_its_job_is_killed_before_the_end_is_told(machine: Machine) -> None:
    machine.starts(machine.order(FORKS_AWAY + "\ntime.sleep(0.3)"))
    stray = int(machine.said("up").split()[0])
    status = machine.status()
    assert (status["code"], status["stragglers"]) == (0, 1)
    assert not is_alive(stray)


def test_job_that_prints_a_lot_is_not_held_up(machine: Machine) -> None:
    line = "x" * 1023
    machine.starts(machine.order(f"for _ in range(20_000): print('{line}')"))
    assert machine.status()["code"] == 0
    assert (machine.folder() / "stdout.0").stat().st_size == 20_000 * 1024


def test_strays_of_an_attempt_without_supervisor_and_reaper_are_swept(machine: Machine) -> None:
    machine.starts(machine.order(FORKS_AWAY + "\ntime.sleep(60)"))
    stray = int(machine.said("up").split()[0])
    folder = str(machine.folder())
    machine.kill_supervisor(with_reaper=True)
    wait_for(lambda: machine.state() == "lost", "a lost attempt")
    assert is_alive(stray)
    wait_for(lambda: not attempts.sweep(folder), "an empty machine")
    assert not is_alive(stray)
    assert machine.starts(machine.order(SLEEPS)) == {"answer": "known"}


def test_stray_without_a_mark_is_found_in_its_group(tmp_path: Path) -> None:
    """Goal: even what clears its environment is swept. Method: a file stands for the group."""
    group, folder = tmp_path / "group", tmp_path / "attempt"
    group.mkdir()
    folder.mkdir()
    (folder / "started").write_text(json.dumps({"cgroup": str(group)}))
    with subprocess.Popen(["/bin/sleep", "60"], env={}) as stray:
        (group / "cgroup.procs").write_text(f"{stray.pid}\n")
        assert attempts.sweep(str(folder)) == 1
        assert stray.wait() == -signal.SIGKILL
    assert attempts.sweep(str(folder)) == 0


def test_silence_of_the_daemon_past_the_deadline_ends_the_job(machine: Machine) -> None:
    beat = machine.root / "heartbeat"
    beat.touch()
    heartbeat = {"path": str(beat), "deadline_s": 0.4}
    machine.starts(machine.order(SLEEPS, heartbeat=heartbeat))
    assert machine.status()["why"] == "heartbeat"


def test_job_lives_on_while_the_heart_beats(machine: Machine) -> None:
    beat = machine.root / "heartbeat"
    beat.touch()
    program = "import time; time.sleep(2.5)"
    machine.starts(machine.order(program, heartbeat={"path": str(beat), "deadline_s": 1.5}))

    def beats() -> bool:
        beat.touch()
        return machine.state() == "ended"

    wait_for(beats, "its end")
    assert machine.status()["code"] == 0


def test_job_that_was_stopped_past_its_deadline_ends_when_it_wakes(machine: Machine) -> None:
    """Goal: a machine that was paused runs nothing on that the scheduler has given up.

    Method: stop supervisor and rank with a sign of life unseen, let the deadline pass, let another
    one come that was sent before, and wake them: they end before a second deadline passes.
    """
    beat, deadline_s = str(machine.root / "heartbeat"), 2.0
    write_beat(beat)
    program = "print('up', flush=True)\nwhile True: print('.', flush=True)"
    heartbeat = {"path": beat, "deadline_s": deadline_s, "is_remote": True}
    machine.starts(machine.order(program, heartbeat=heartbeat))
    machine.said("up")
    supervisor = machine.supervisor()
    stopped = [*descendants(supervisor), supervisor]
    sent_ns = uptime_ns()
    write_beat(beat)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: uptime_ns() - sent_ns > (deadline_s + 0.5) * 1e9, "the deadline")
    write_beat(beat, sent_ns)
    before, woken_ns = (machine.folder() / "stdout.0").stat().st_size, time.monotonic_ns()
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    status = machine.status()
    done = (machine.folder() / "stdout.0").stat().st_size - before
    print(f"ended {(status['ended_ns'] - woken_ns) / 1e6:.0f} ms after waking, {done} bytes said")
    assert status["why"] == "heartbeat"
    assert status["ended_ns"] - woken_ns < deadline_s * 1e9


def test_fenced_attempt_never_starts_and_the_next_one_does(machine: Machine) -> None:
    attempts.raise_fence(str(machine.root), "j0", 2)
    assert [machine.starts(machine.order("", attempt=n))["answer"] for n in (1, 2, 3)] == [
        "refused",
        "refused",
        "started",
    ]
    assert machine.state(2) == "absent"


def test_replaced_scheduler_starts_and_orders_nothing(machine: Machine) -> None:
    machine.starts(machine.order(SLEEPS))
    attempts.raise_term(str(machine.root), 2)
    assert machine.starts(machine.order("", attempt=2))["answer"] == "refused"
    machine.sends("terminate")
    machine.sends("note")
    assert attempts.raise_term(str(machine.root), 1) == 2
    assert machine.state() == "running"


def test_six_launches_of_one_attempt_start_it_once(machine: Machine) -> None:
    order = machine.order("print('up', flush=True); import time; time.sleep(1)")
    answers: list[str] = []
    callers = [
        threading.Thread(target=lambda: answers.append(machine.starts(order)["answer"]))
        for _ in range(6)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(answers) == ["known"] * 5 + ["started"]
    assert machine.status()["code"] == 0
    assert machine.said("up") == "up\n"


def test_launcher_killed_in_mid_launch_leaves_all_or_nothing(machine: Machine) -> None:
    """Goal: a launch whose caller dies is repeated safely. Method: kill it, ever later."""
    for attempt, delay_s in enumerate((0.0, 0.02, 0.04, 0.05, 0.06, 0.08), 1):
        order = machine.order("print('up', flush=True)", attempt=attempt)
        with subprocess.Popen(
            command("start", str(machine.root)), stdin=subprocess.PIPE
        ) as launcher:
            assert launcher.stdin is not None
            launcher.stdin.write(json.dumps(order).encode())
            launcher.stdin.flush()
            threading.Timer(delay_s, launcher.kill).start()
            launcher.communicate()
        machine.starts(order)
        assert machine.status(attempt)["code"] == 0
        assert machine.said("up", attempt) == "up\n"


def test_job_asked_to_leave_saves_and_leaves(machine: Machine) -> None:
    machine.starts(machine.order(LEAVES))
    machine.said("up")
    machine.sends("suspend", mode="cooperative")
    status = machine.status()
    assert (status["code"], status["suspended"], status["saved"]) == (75, True, True)
    noted = read_journal(str(machine.folder()))["notes"]
    assert [note["what"] for note in noted] == ["requested", "acknowledged", "saved"]


def test_suspension_counts_though_a_launcher_hides_the_code_of_its_ranks(
    machine: Machine,
) -> None:
    machine.starts(machine.order(LEAVES.replace("sys.exit(75)", "sys.exit(1)")))
    machine.said("up")
    machine.sends("suspend")
    status = machine.status()
    assert (status["code"], status["suspended"], status["saved"]) == (1, True, True)


def test_job_that_never_suspends_runs_on(machine: Machine) -> None:
    order = machine.order("import time; time.sleep(0.8)")
    order["suspend"]["mode"] = "never"
    machine.starts(order)
    machine.sends("suspend")
    status = machine.status()
    assert (status["code"], status["suspended"]) == (0, False)


@pytest.mark.parametrize(("mode", "is_suspended"), [("never", False), ("cooperative", True)])
def test_exit_75_unasked_is_a_failure_of_who_is_never_suspended(
    machine: Machine, mode: str, *, is_suspended: bool
) -> None:
    order = machine.order("raise SystemExit(75)", ranks=2)
    order["suspend"]["mode"] = mode
    machine.starts(order)
    status = machine.status()
    assert (status["code"], status["suspended"]) == (75, is_suspended)


@pytest.mark.needs("root")
def test_job_runs_as_its_user_and_dies_with_its_supervisor(machine: Machine) -> None:
    nobody = {"uid": 65534, "gid": 65534, "groups": []}
    order = machine.ordering(["/bin/sh", "-c", "id -u; exec sleep 60"], user=nobody)
    order["ranks"][0]["directory"] = "/"
    machine.starts(order)
    assert machine.said("\n") == "65534\n"
    machine.kill_supervisor(with_reaper=True)
    wait_for(lambda: machine.state() == "lost", "a lost attempt")
    wait_for(lambda: not attempts.holders(str(machine.folder())), "its end")


def test_job_that_does_not_answer_is_asked_in_stronger_modes(machine: Machine) -> None:
    program = "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN); " + DEAF
    machine.starts(machine.order(program))
    machine.said("up")
    machine.sends("suspend", mode="cooperative")
    status = machine.status()
    assert (status["code"], status["suspended"], status["saved"]) == (137, True, False)
    noted = read_journal(str(machine.folder()))["notes"]
    assert [note["mode"] for note in noted] == ["cooperative", "signal", "restart"]


def test_signal_goes_to_who_listens_and_not_to_his_launcher(machine: Machine) -> None:
    """Goal: a shell or torchrun before the job does not die of the signal. Method: such a shell."""
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(75))\n"
        "print('up', flush=True); time.sleep(60)"
    )
    launcher = f'"{sys.executable}" -I -S -c "$0"; exit $?'
    order = machine.ordering(["/bin/sh", "-c", launcher, program])
    order["suspend"] = {**order["suspend"], "mode": "signal", "signal_s": 20}
    machine.starts(order)
    machine.said("up")
    machine.sends("suspend")
    status = machine.status()
    assert (status["code"], status["suspended"], status["saved"]) == (75, True, True)


def test_program_that_has_ended_its_work_and_drops_its_handlers_has_finished(
    machine: Machine,
) -> None:
    """Goal: what is done is not done again. Method: an end that waits until it was asked."""
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "path = os.environ['SHUNTER_SUSPEND']\n"
        "class Last:\n"
        "    def __del__(self, sleep=time.sleep, stat=os.stat, path=path):\n"
        "        print('up', flush=True)\n"
        "        while True:\n"
        "            try:\n"
        "                stat(path)\n"
        "                break\n"
        "            except OSError:\n"
        "                sleep(0.01)\n"
        "        sleep(0.3)\n"
        "last = Last()\n"
    )
    order = machine.order(program)
    order["suspend"] = {**order["suspend"], "mode": "signal", "signal_s": 20}
    machine.starts(order)
    machine.said("up")
    machine.sends("suspend")
    status = machine.status()
    assert (status["code"], status["suspended"]) == (0, False)


def test_program_without_handler_of_the_signal_leaves_by_the_next_mode(machine: Machine) -> None:
    order = machine.order(SLEEPS)
    order["suspend"] = {**order["suspend"], "mode": "signal", "signal_s": 0.2}
    machine.starts(order)
    machine.said("up")
    machine.sends("suspend")
    status = machine.status()
    assert (status["code"], status["suspended"], status["saved"]) == (143, True, False)
    noted = read_journal(str(machine.folder()))["notes"]
    assert [note["mode"] for note in noted] == ["signal", "restart"]


def test_job_that_could_only_be_stopped_is_restarted(machine: Machine) -> None:
    """Goal: its GPUs are given back. Method: a mode that would keep them is not enough."""
    order = machine.order(SLEEPS)
    order["suspend"]["mode"] = "stop"
    machine.starts(order)
    machine.said("up")
    machine.sends("suspend")
    status = machine.status()
    assert (status["code"], status["suspended"], status["saved"]) == (143, True, False)
    noted = [(note["what"], note["mode"]) for note in read_journal(str(machine.folder()))["notes"]]
    assert noted == [("requested", "stop"), ("escalated", "restart")]


def test_ranks_leave_together(machine: Machine) -> None:
    machine.starts(machine.ordering([sys.executable, "-I", "-S", "-c", LEAVES], ranks=3))
    for rank in range(3):
        machine.said("up", rank=rank)
    machine.sends("suspend", mode="cooperative")
    assert machine.status()["codes"] == (75, 75, 75)


def is_held(pid: int) -> bool:
    """Say whether a rank waits at its gate, which is a pipe."""
    return "pipe" in Path(f"/proc/{pid}/wchan").read_text()


def test_rank_of_a_gang_runs_only_once_all_servers_have_started(machine: Machine) -> None:
    order = machine.order(LEAVES, ranks=2, awaits_others=True)
    machine.starts(order)
    record = attempts.probe(str(machine.folder()))
    assert record["state"] == "running"
    living = [pid for pid, parent in processes().items() if parent == machine.supervisor()]
    assert len(living) == 2
    outputs = [machine.folder() / f"stdout.{rank}" for rank in range(2)]
    wait_for(
        lambda: all(map(is_held, living)) or any(path.read_text() for path in outputs),
        "ranks at their gate",
        machine.told,
    )
    assert [path.read_text() for path in outputs] == ["", ""]
    machine.sends("go")
    machine.sends("go")  # a scheduler that was gone meanwhile says it again
    for rank in range(2):
        machine.said("up", rank=rank)
    machine.sends("suspend", mode="cooperative")
    assert machine.status()["codes"] == (75, 75)


@pytest.mark.parametrize("do", ["suspend", "terminate"])
def test_rank_that_never_ran_its_program_leaves_without_it(machine: Machine, do: str) -> None:
    order = machine.order("print('ran', flush=True)", ranks=2, awaits_others=True)
    order["suspend"].update(cooperative_s=60.0, restart_s=60.0)
    order["grace_s"] = 60.0  # SIGKILL comes to nobody who is only slow to die of SIGTERM
    machine.starts(order)
    machine.sends(do, mode="cooperative")
    status = machine.status()
    assert (status["codes"], status["suspended"]) == ((143, 143), do == "suspend")
    assert [(machine.folder() / f"stdout.{rank}").read_text() for rank in range(2)] == ["", ""]


def test_failure_of_one_rank_ends_the_gang(machine: Machine) -> None:
    program = f"import os\nif os.environ['RANK'] == '1': raise SystemExit(4)\n{SLEEPS}"
    machine.starts(machine.order(program, ranks=2))
    status = machine.status()
    assert (status["code"], status["codes"]) == (4, (128 + signal.SIGTERM, 4))


@pytest.mark.parametrize("rank_first", [False, True], ids=["supervisor-first", "rank-first"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_job_that_is_ended_with_its_supervisor_did_not_fail(
    machine: Machine, ranks: int, *, rank_first: bool
) -> None:
    """Slurm sends SIGTERM to all processes of an allocation that it ends."""
    machine.starts(machine.order(SLEEPS, ranks=ranks))
    for rank in range(ranks):
        machine.said("up", rank=rank)
    supervisor = machine.supervisor()
    living = [pid for pid, parent in processes().items() if parent == supervisor]
    assert len(living) == ranks
    everybody = [*living, supervisor] if rank_first else [supervisor, *living]
    for pid in everybody:
        with suppress(ProcessLookupError):  # the others end with the first
            os.kill(pid, signal.SIGTERM)
    status = machine.status()
    assert (status["code"], status["suspended"], status["saved"]) == (143, True, False)


def test_signal_that_ends_a_batch_job_is_known_before_its_end(machine: Machine) -> None:
    """Goal: an attempt that Slurm ends says so, on a machine where one process waits for another.

    Method: of all processes, to which Slurm sends SIGTERM, the batch process runs last.
    """
    folder, checkpoints = machine.folder(), str(machine.root / "checkpoints")
    order = machine.order(
        SLEEPS, placement=[["n1", 1]], checkpoints=checkpoints, user=None, home=None
    )
    folder.mkdir(mode=0o700, parents=True)
    put(f"{folder}/order", order)
    given = {**os.environ, "SLURMD_NODENAME": "n1", "SLURM_JOB_GPUS": "0"}
    with subprocess.Popen(command("batch", str(machine.root), "j0", "1"), env=given) as process:
        try:
            machine.said("up")
            supervisor = machine.supervisor()
            living = [pid for pid, parent in processes().items() if parent == supervisor]
            os.kill(process.pid, signal.SIGSTOP)
            for pid in (supervisor, *living):
                with suppress(ProcessLookupError):  # the ranks end with their supervisor
                    os.kill(pid, signal.SIGTERM)
            assert machine.status()["suspended"]
            assert told_to_leave_by(str(folder))[0] == "SIGTERM"
        finally:
            os.kill(process.pid, signal.SIGCONT)
    assert process.returncode == 143


def test_job_that_is_ended_alone_has_failed(machine: Machine) -> None:
    machine.starts(machine.order(SLEEPS))
    machine.said("up")
    (rank,) = [pid for pid, parent in processes().items() if parent == machine.supervisor()]
    os.kill(rank, signal.SIGTERM)
    status = machine.status()
    assert (status["code"], status["suspended"]) == (143, False)


FAMILY = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    while True: time.sleep(0.01)
# Handlers write past the buffer: a print that a signal interrupts refuses another one.
signal.signal(signal.SIGTSTP, lambda *_: os.write(1, b"asked\\n"))
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"told\\n"), os._exit(3)))
print("up", flush=True)
while True: time.sleep(0.01)
"""


def standing(machine: Machine) -> set[str]:
    """Return in which states the processes of the attempt are: R, S, T, ..."""
    mark = f"SHUNTER_FOLDER={machine.folder()}".encode()
    found = set()
    for path in sorted(Path("/proc").glob("[0-9]*")):
        try:
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.add((path / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return found


def test_stopped_attempt_stands_still_with_all_its_processes_and_goes_on(machine: Machine) -> None:
    machine.starts(machine.order(FAMILY))
    machine.said("up")
    for _ in range(2):  # an order may come twice
        machine.sends("stop")
        wait_for(lambda: standing(machine) == {"T"}, "standing still", machine.told)
    machine.sends("continue")
    machine.said("asked")  # on a busy machine only now, as it was made to stand still first
    wait_for(lambda: "T" not in standing(machine), "going on")
    wait_for(lambda: len(read_journal(str(machine.folder()))["notes"]) > 1, "a note of that")
    whats = [note["what"] for note in read_journal(str(machine.folder()))["notes"]]
    assert whats == ["stopped", "continued"]
    machine.sends("terminate")
    assert machine.status()["code"] == 3


def test_stopped_attempt_that_is_to_end_hears_it(machine: Machine) -> None:
    machine.starts(machine.order(FAMILY))
    machine.said("up")
    machine.sends("stop")
    wait_for(lambda: standing(machine) == {"T"}, "standing still", machine.told)
    machine.sends("terminate")
    assert (machine.status()["code"], machine.status()["why"]) == (3, "terminate")
    assert "told" in (machine.folder() / "stdout.0").read_text()


def test_stopped_attempt_that_must_leave_its_gpus_does(machine: Machine) -> None:
    order = machine.order(FAMILY)
    order["suspend"]["mode"] = "stop"
    machine.starts(order)
    machine.said("up")
    machine.sends("stop")
    wait_for(lambda: standing(machine) == {"T"}, "standing still", machine.told)
    machine.sends("suspend")
    assert machine.status()["suspended"]
    notes = read_journal(str(machine.folder()))["notes"]
    assert [(note["what"], note.get("mode")) for note in notes] == [
        ("stopped", None),
        ("requested", "stop"),
        ("escalated", "restart"),
        ("continued", None),
    ]
