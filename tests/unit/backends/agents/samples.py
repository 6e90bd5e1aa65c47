"""A message of every kind, with every field that it can have."""

from typing import Any

from shunter.backends.node import messages

NOW, UP = 5_000_000_001, 6_000_000_002
ORDER = messages.Order(
    job="j1",
    attempt=2,
    term=3,
    placement=(("n0", 3), ("n1", 1)),
    ranks=(
        messages.Rank(
            argv=("/bin/echo", "ä"),
            env={"NAME": "value"},
            cpus=(0, 1),
            pinned=True,
            directory="/d",
            gpus=("0", "1"),
        ),
    ),
    suspend=messages.Suspend(
        mode="cooperative", signal=10, cooperative_s=60.0, signal_s=30.5, restart_s=10.0
    ),
    grace_s=10.0,
    port=29500,
    sample_s=10.0,
    output_bytes_max=1 << 30,
    heartbeat=messages.HeartbeatLimits(path="/b/heartbeat", deadline_s=900.0, is_remote=True),
    gpus=("0", "1"),
    memory_mb=512,
    user_name="ana",
    checkpoints="/b/jobs/j1/checkpoints",
)
SHARES = messages.Shares(cpus_milli=1500, memory_mb=512, cpus=(0, 1))
SLICING = messages.AttemptTurns(
    weight=2.0, is_fixed=True, quantum_us=60_000_000, wait_most_us=None, boundary_most_us=9
)
QUESTIONS: tuple[messages.Question[messages.Answer], ...] = (
    messages.Claim(asked_ns=1, cluster="c0", term=3, holder="h", node="n0", cgroup="/g"),
    messages.Claim(
        asked_ns=1, cluster="c0", term=3, holder="h", node="n0", cgroup=None, is_limited=True
    ),
    messages.Beat(asked_ns=1),
    messages.Look(asked_ns=1, watched=(("j1", 2, 3, 1),), anew=(("j1", 2),), is_all=True),
    messages.Start(order=ORDER, before_ns=9),
    messages.Start(order=ORDER.replaced(shares=SHARES), before_ns=9),
    messages.Start(order=ORDER.replaced(slicing=SLICING), before_ns=9),
    messages.Reshape(job="j1", attempt=2, shares=SHARES),
    messages.Switch(stops=(("j1", 2),), continues=(("j2", 1),)),
    messages.Fence(job="j1", attempt=2),
    messages.SetAside(job="j1", attempt=2, is_stray=True),
    messages.Send(job="j1", attempt=2, order=messages.Command(do="suspend")),
    messages.Send(job="j1", attempt=2, order=messages.Command(do="slice", weight=2.0, mask=5)),
    messages.Inventory(job="j1"),
    messages.Inventory(wanted=(("j1", 2),)),
    messages.Inventory(wanted=()),
    messages.Read(job="j1", attempt=2, name="stdout.0", offset=0, bytes=100),
    messages.Port(ports=(29500, 29501)),
    messages.Start(order=ORDER.replaced(is_bound=True), before_ns=9),
)
STARTED = messages.Started(
    boot="b0",
    started_ns=7,
    pid=99,
    placement=(("n0", 2**70), ("n1", 1)),
    ranks=(messages.RankStarted(cpus=(0, 1), pinned=True),),
    port=29500,
    gpus=("0", "1"),
    cgroup="/sys/fs/cgroup/shunter-j1.2",
    job="j1",
    attempt=2,
    term=3,
    uid=1000,
    since=5,
)
STATUS = messages.Status(
    code=75,
    suspended=True,
    why="suspend",
    saved=True,
    ended_ns=11,
    codes=(75, None),
    stragglers=0,
    memory_kills=1,
    output_dropped_bytes=2,
    saved_ns=10,
    signal=9,
)
NOTES = (
    messages.Note(n=1, what="training", at_ns=1),
    messages.Note(n=2, what="stopped", at_ns=2),
    messages.Note(n=3, what="continued", at_ns=3),
    messages.Note(n=4, what="requested", at_ns=4, mode="cooperative"),
    messages.Note(n=5, what="acknowledged", at_ns=5),
    messages.Note(n=6, what="saved", at_ns=6, checkpoint="/c", step=7, bytes=8),
    messages.Note(n=7, what="failed", at_ns=7, error="disk full", step=7),
    messages.Note(n=8, what="escalated", at_ns=8, mode="signal"),
    messages.Note(n=9, what="refused", at_ns=9, count=1, cause="is no JSON"),
    messages.Note(n=10, what="other", at_ns=9),
    messages.Note(n=11, what="turn_started", at_ns=11, mask=2**70),
    messages.Note(n=12, what="turn_ended", at_ns=12),
)
KNOWN = messages.Known(
    job="j1",
    attempt=2,
    folder="/b/jobs/j1/2",
    state="ended",
    started=STARTED,
    status=STATUS,
    after=0,
    facts=0,
    notes=NOTES,
    is_all=True,
)
ABSENT = messages.Known(
    job="j2",
    attempt=1,
    folder="/b/jobs/j2/1",
    state="absent",
    started=None,
    status=None,
    after=0,
    facts=None,
    notes=(),
    is_all=False,
)
SAMPLE = messages.Sample(
    job="j1",
    attempt=2,
    at_ns=8,
    pids=(100, 101),
    step=7,
    batch_s=0.5,
    printed=True,
    cpus=1.5,
    memory_mb=300,
)
READING = messages.GpuReading(
    index=0,
    faults={"memory": 3},
    uuid="GPU-a",
    utilisation=0.35,
    memory_mb=100,
    memory_total_mb=16_160,
    memory_by_pid={100: 90},
)
ANSWERS: tuple[tuple[type[messages.Question[Any]], messages.Answer], ...] = (
    (messages.Claim, messages.Claimed(now_ns=NOW, up_ns=UP, root="/b/clusters/c0", term=3)),
    (
        messages.Claim,
        messages.Claimed(now_ns=NOW, up_ns=UP, root="/b", term=3, shares="CPUs by affinity"),
    ),
    (
        messages.Claim,
        messages.ClaimRefused(now_ns=NOW, up_ns=UP, refused="taken", cause="it is another's"),
    ),
    (
        messages.Look,
        messages.Looked(now_ns=NOW, up_ns=UP, changed=(KNOWN,), samples=(SAMPLE,), gpus=(READING,)),
    ),
    (messages.Beat, messages.Beaten(now_ns=NOW, up_ns=UP)),
    (messages.Look, messages.Looked(now_ns=NOW, up_ns=UP, changed=(), samples=(), gpus=None)),
    (messages.Start, messages.StartAnswer(now_ns=NOW, up_ns=UP, answer="started", known=ABSENT)),
    (
        messages.Start,
        messages.StartAnswer(now_ns=NOW, up_ns=UP, answer="late", cause="the order came too late"),
    ),
    (messages.Fence, messages.Fenced(now_ns=NOW, up_ns=UP, fenced=(KNOWN,))),
    (messages.SetAside, messages.SetAsideAnswer(now_ns=NOW, up_ns=UP, is_over=True)),
    (messages.Send, messages.SendAnswer(now_ns=NOW, up_ns=UP, taken=False)),
    (messages.Inventory, messages.InventoryAnswer(now_ns=NOW, up_ns=UP, attempts=(ABSENT,))),
    (
        messages.Reshape,
        messages.ReshapeAnswer(now_ns=NOW, up_ns=UP, cpus_milli=1500, memory_mb=512),
    ),
    (
        messages.Reshape,
        messages.ReshapeAnswer(
            now_ns=NOW, up_ns=UP, cpus_milli=2000, memory_mb=0, cpus=(0, 1), cause="no such file"
        ),
    ),
    (
        messages.Switch,
        messages.SwitchAnswer(
            now_ns=NOW,
            up_ns=UP,
            stands=(
                messages.Stand(job="j1", attempt=2, stance="stopped"),
                messages.Stand(job="j2", attempt=1, stance="ended"),
            ),
        ),
    ),
    (messages.Read, messages.ReadAnswer(now_ns=NOW, up_ns=UP, data="a\xff\n", size=3)),
    (messages.Read, messages.ReadAnswer(now_ns=NOW, up_ns=UP, data="", size=None)),
    (messages.Port, messages.PortAnswer(now_ns=NOW, up_ns=UP, port=29500)),
    (messages.Port, messages.PortAnswer(now_ns=NOW, up_ns=UP, port=None)),
    (messages.Fence, messages.Failed(now_ns=NOW, up_ns=UP, error="OSError: disk full")),
)
GREETING = messages.Greeting(
    now_ns=NOW, up_ns=UP, base="/b", boot="b0", wall_s=1.5, python=(3, 8, 18), uid=0, protocol=2
)
