"""Speed as ratios: against another checkout of Shunter, and beside other programs.

    make bench BEFORE=FOLDER PEERS=1
    python -m benchmarks.ratios [--before FOLDER] [--peers] [--only loops,rounds] [--best-of 3]

Both of a pair run in turns, on one machine in the same minutes, and the least of each counts: other
work only ever adds. Seconds are CPU seconds: of a whole process, or of its loop alone, as the
program says (ours: from parsed trace to closed log). FOLDER is a checkout in which `make setup-dev`
has run; its own Python runs it. The peers are the programs in benchmarks/peers; one that is not
installed counts as not met, and the table says how to install it.

Exits 0 also where a bound is missed, and 1 where a measurement failed. `--quick` measures all once
and small: it shows that the table works, not how fast we are.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.commands import HERE, TRACES, Checkout, Ran, ran
from benchmarks.gavel.runs import config_text
from benchmarks.loop import loop_s
from benchmarks.peers import gflow
from benchmarks.peers.runs import Peer, PeerRun, Queue, accasim, simgrid, simpy
from benchmarks.tiresias import SERVERS
from shunter.workloads import load_trace

T = TypeVar("T")
S = TypeVar("S")

PHILLY = Path("examples") / "philly.toml"
PHILLY_SERVERS, PHILLY_GPUS = 100, 400
NO_BEFORE = "not measured: name a checkout to compare with, make bench BEFORE=FOLDER"
NO_PEERS = "not measured: make bench PEERS=1"


@dataclass(frozen=True)
class Bound:
    """What a number must be at the most, and what it should be.

    `aim` None: there is none. `is_floor`: at the least.
    """

    must: float
    aim: float | None = None
    is_floor: bool = False

    def verdict(self, value: float) -> str:
        """Say which of both a number keeps."""
        sign = -1 if self.is_floor else 1
        if self.aim is not None and sign * value <= sign * self.aim:
            return "met, and the aim"
        return "met" if sign * value <= sign * self.must else "MISSED"


@dataclass(frozen=True)
class Row:
    """A line of the table, and what it was computed from.

    `bound` None: the number is told, nothing is asked of it. `value` None: it was not measured, and
    `said` has the reason.
    """

    what: str
    bound: Bound | None
    value: float | None
    said: str

    def text(self) -> str:
        """Return the line, with what was measured below it."""
        must = aim = verdict = "-"
        if self.bound is not None:
            sign = "≥" if self.bound.is_floor else "≤"
            must = f"{sign} {self.bound.must:g}"
            aim = "-" if self.bound.aim is None else f"{sign} {self.bound.aim:g}"
            verdict = "not met" if self.value is None else self.bound.verdict(self.value)
        return line(self.what, "-" if self.value is None else f"{self.value:.3g}", must, aim) + (
            f"  {verdict}\n    {self.said}"
        )


def line(what: str, value: str, must: str, aim: str) -> str:
    """Lay the columns of a line out."""
    return f"{what:68} {value:>8} {must:>7} {aim:>7}"


@dataclass(frozen=True)
class Setting:
    """With what and how often the table is measured.

    `before` None: there is nothing to compare with. `runs` is how often each of a pair runs.
    `folder` is for what the runs write.
    """

    trace: Path
    folder: Path
    runs: int
    before: Checkout | None
    with_peers: bool
    is_quick: bool

    def log_of(self, checkout: Checkout, policy: str) -> Path:
        """Return where a checkout keeps the log of a policy."""
        side = "here" if checkout == HERE else "before"
        return self.folder / f"{side}-{policy}.db"

    def philly(self, checkout: Checkout, policy: str, *words: str) -> Ran:
        """Simulate the Philly trace, with the log on."""
        trace = ("--set", f"workload.trace={self.trace}", "--policy", policy)
        log = self.log_of(checkout, policy)
        return checkout.simulated(checkout.root / PHILLY, log, *trace, *words)


def in_turns(first: Callable[[], T], second: Callable[[], S], runs: int) -> tuple[list[T], list[S]]:
    """Run both so many times, in turns."""
    pairs = [(first(), second()) for _ in range(runs)]
    return [one for one, _ in pairs], [other for _, other in pairs]


def quotient(
    what: str, bound: Bound | None, ours: Sequence[float], theirs: Sequence[float], name: str
) -> Row:
    """Return a row of our least seconds over the least of another program."""
    pairs = ", ".join(f"{one / other:.2f}" for one, other in zip(ours, theirs, strict=True))
    said = f"{min(ours):.2f} CPU s, {name} {min(theirs):.2f}; pair by pair {pairs}"
    return Row(what, bound, min(ours) / min(theirs), said)


def documents(module: str, *words: str) -> list[dict[str, Any]]:
    """Run a benchmark in a process of its own, and return what it printed."""
    printed = ran([sys.executable, "-m", f"benchmarks.{module}", *words]).printed
    return [json.loads(document) for document in printed.splitlines()]


# Two checkouts: loops of Philly, whole processes of other settings, verification.

PREEMPTIVE, WHOLE = Bound(0.50, 0.25), Bound(0.60, 0.35)
LOOPS = {"las": PREEMPTIVE, "tiresias": PREEMPTIVE, "srtf": PREEMPTIVE, "fifo": Bound(0.40, 0.15)}
SCHEDULES = ("fifo", "dlas-gpu", "shortest-gpu")


def loops(setting: Setting) -> Iterator[Row]:
    """Yield the loops of the Philly trace."""
    for policy, bound in LOOPS.items():
        what = f"Philly {policy}, loop, log on, against BEFORE"
        if setting.before is None:
            yield Row(what, bound, None, NO_BEFORE)
            continue
        ours, theirs = in_turns(
            partial(setting.philly, HERE, policy),
            partial(setting.philly, setting.before, policy),
            setting.runs,
        )
        here, before = ([each.document for each in side] for side in (ours, theirs))
        row = quotient(
            what,
            bound,
            [document["elapsed"]["cpu_s"] for document in here],
            [document["elapsed"]["cpu_s"] for document in before],
            "before",
        )
        is_same = here[0]["log"]["digest"] == before[0]["log"]["digest"]
        said = f"{row.said}; digests {'equal' if is_same else 'DIFFER'}"
        yield Row(what, bound, row.value, said)


def processes(setting: Setting) -> Iterator[Row]:
    """Yield whole processes: Tiresias on its own trace, and Gavel on 200 jobs with gangs."""
    trace = TRACES / "tiresias" / "s5000_job.csv"
    for schedule in SCHEDULES:
        what = f"Tiresias s5000 {schedule}, whole process, against BEFORE"
        if setting.is_quick:
            source = 'workload.generate={kind="tiresias-like",jobs=50}'
        elif trace.exists():
            source = f"workload.trace={trace}"
        else:
            yield Row(what, WHOLE, None, f"not measured: there is no trace {trace}")
            continue
        words = ("--set", f"cluster.nodes.0.name={SERVERS}", "--set", source)
        config = Path("examples") / "peers" / "tiresias" / f"{schedule}.toml"
        yield whole(setting, what, config, words)
    for policy in ("gavel_peer", "gavel"):
        path = setting.folder / f"{policy}.toml"
        path.write_text(config_text(policy, 20 if setting.is_quick else 200, 2.0, 8))
        what = f"Gavel, 200 jobs, {policy}, whole process, against BEFORE"
        yield whole(setting, what, path, ())


def whole(setting: Setting, what: str, config: Path, words: tuple[str, ...]) -> Row:
    """Return a row of a whole simulation; a relative config is looked up in each checkout."""
    if setting.before is None:
        return Row(what, WHOLE, None, NO_BEFORE)

    def run(checkout: Checkout) -> float:
        log = setting.log_of(checkout, "whole")
        return checkout.simulated(checkout.root / config, log, *words).cpu_s

    pairs = in_turns(partial(run, HERE), partial(run, setting.before), setting.runs)
    return quotient(what, WHOLE, *pairs, "before")


def verification(setting: Setting) -> Iterator[Row]:
    """Yield `replay --verify` of the log of Philly under las, each checkout with its own log."""
    what, bound = "replay --verify, Philly las, whole process, against BEFORE", Bound(0.6, 0.4)
    if setting.before is None:
        yield Row(what, bound, None, NO_BEFORE)
        return

    def run(checkout: Checkout) -> float:
        log = setting.log_of(checkout, "las")
        if not log.exists():
            setting.philly(checkout, "las")
        return checkout.shunter("replay", str(log), "--verify").cpu_s

    pairs = in_turns(partial(run, HERE), partial(run, setting.before), setting.runs)
    yield quotient(what, bound, *pairs, "before")


# Other simulators, on the same jobs first in, first out. AccaSim sorts the whole queue at each
# event, so it gets the first rows only.

ACCASIM_ROWS = 2_000


def peers(setting: Setting) -> Iterator[Row]:
    """Yield our whole process, with log and placement, over bare loops of other simulators."""
    rows: list[tuple[Callable[[], Peer], str, Bound | None, int | None]] = [
        (simpy, "SimPy", Bound(3, 1), None),
        (partial(simgrid, setting.folder), "SimGrid", Bound(1.2, 0.4), None),
        (accasim, "AccaSim", None, ACCASIM_ROWS),
    ]
    for peer, name, bound, first in rows:
        which = "" if first is None else f", first {first:,} jobs"
        what = f"Philly fifo{which}, whole process, against bare loop of {name}"
        if not setting.with_peers:
            yield Row(what, bound, None, NO_PEERS)
        else:
            yield beside(setting, peer(), what, bound, first)


def beside(setting: Setting, peer: Peer, what: str, bound: Bound | None, first: int | None) -> Row:
    """Return a row of our whole process over a peer's loop, on the first jobs or on all."""
    play = peer.run
    if play is None:
        return Row(what, bound, None, peer.lacks)
    queue, count = written(setting, first)
    # A job may start when another ends, not only at rounds: so it is with the peers.
    words = ["--set", "policy.trigger=event"]
    words += ["--set", f"workload.rows=[0,{count}]"]
    ours: list[Ran]
    theirs: list[PeerRun]
    ours, theirs = in_turns(
        partial(setting.philly, HERE, "fifo", *words), partial(play, queue), setting.runs
    )
    jct_s, other_s = ours[0].document["jct_s"]["mean"], theirs[0].jct_s
    if f"{jct_s:.4f}" != f"{other_s:.4f}":
        said = f"not the same simulation: mean JCT {jct_s:.4f} s, of {peer.name} {other_s:.4f} s"
        return Row(what, bound, None, said)
    seconds = [ran.cpu_s for ran in ours], [each.loop_cpu_s for each in theirs]
    row = quotient(what, bound, *seconds, peer.name)
    process_s = min(each.process_cpu_s for each in theirs)
    said = f"{row.said}; its process {process_s:.2f}; mean JCT {jct_s:,.4f} s in both"
    return Row(what, bound, row.value, said)


def written(setting: Setting, first: int | None) -> tuple[Queue, int]:
    """Write the first jobs of the trace for peers, or all; return their file and how many."""
    jobs = load_trace(str(setting.trace), "philly-csv").jobs[:first]
    path = setting.folder / f"jobs-{len(jobs)}.txt"
    lines = (f"{job.submit_us / 1e6} {job.duration_us / 1e6} {job.spec.gpus}\n" for job in jobs)
    path.write_text("".join(lines), encoding="utf-8")
    return Queue(path, PHILLY_GPUS, PHILLY_SERVERS), len(jobs)


# This checkout alone.


def counts(setting: Setting) -> Iterator[Row]:
    """Yield what is counted, and so has no noise."""
    words = ("--generated", "100") if setting.is_quick else ("--trace", str(setting.trace))
    (found,) = documents("counts", *words)
    said = f"{found['calls']:,} calls, {found['events']:,} facts"
    yield Row(
        "Python calls a fact, las, first 10,000 jobs of Philly",
        Bound(24, 12),
        found["calls_per_fact"],
        said,
    )
    said = f"{found['bytes']:,} bytes, {found['jobs']:,} jobs"
    yield Row("bytes a job of the log, Philly las", Bound(80, 60), found["bytes_per_job"], said)


def rounds(setting: Setting) -> Iterator[Row]:
    """Yield the wave of las, and how the rounds of max-min fairness grow."""
    queued, fewer = (200, 50) if setting.is_quick else (20_000, 5_000)
    servers = ("--servers", "10") if setting.is_quick else ()

    def play(policies: str, count: int, *words: str) -> list[dict[str, Any]]:
        return documents("rounds", "--policies", policies, "--queued", str(count), *servers, *words)

    found = [play("las,srtf", queued) for _ in range(setting.runs)]
    wave_s = min(las["worst_cpu_s"] for las, _ in found)
    usual_s = min(srtf["median_cpu_s"] for _, srtf in found)
    said = f"worst of las {wave_s * 1e3:.1f} ms, median of srtf {usual_s * 1e3:.3f} ms; "
    said += f"{queued:,} queued on {found[0][0]['servers']:,} servers"
    yield Row("worst las round in srtf's rounds", Bound(100, 30), wave_s / usual_s, said)
    many, few = in_turns(
        partial(play, "max_min_fairness", queued, "--rounds", "6"),
        partial(play, "max_min_fairness", fewer, "--rounds", "6"),
        setting.runs,
    )
    many_s, few_s = (min(each[0]["median_cpu_s"] for each in side) for side in (many, few))
    said = f"median {many_s * 1e3:.0f} ms with {queued:,} queued, {few_s * 1e3:.0f} with {fewer:,}"
    after_s = min(each[0]["after_cpu_s"] for each in many)
    said += f"; not counted: up to {after_s:.2f} s from one round to the next"
    yield Row("max-min round, 20k queued against 5k", Bound(2.2), many_s / few_s, said)


def million(setting: Setting) -> Iterator[Row]:
    """Yield the peak memory of a million jobs, most of which queue."""
    words = ("--jobs", "2000") if setting.is_quick else ()
    (found,) = documents("million", "--small", "0", *words)
    said = f"{found['jobs']:,} jobs, {found['cpu_s']:,} CPU s, utilisation "
    said += f"{found['gpu_utilisation']}"
    is_full = found["gpu_utilisation"] >= found["budget_gpu_utilisation"]
    value = found["peak_gib"] if is_full or setting.is_quick else None
    yield Row("peak memory of 1M jobs, GiB", Bound(0.50, 0.40), value, said)


STARTS = {"simulate": Bound(15, 10), "queue": Bound(8, 5), "submit": Bound(8, 5)}
"""What commands may take in starts of bare Python."""


def start(setting: Setting) -> Iterator[Row]:
    """Yield what a command takes that does little else than start."""
    found = documents("startup", "--best-of", "2" if setting.is_quick else "10")
    by_name = {document.get("policy"): document for document in found}
    for name, bound in STARTS.items():
        document = by_name.get(name, {})
        said = f"{document.get('cpu_s')} CPU s"
        yield Row(
            f"start of `{name}`, in starts of bare Python", bound, document.get("starts"), said
        )


def short_jobs(setting: Setting) -> Iterator[Row]:
    """Yield how many short jobs a second we run, over how many others run in turns."""
    whats = [
        f"short jobs a second, local, over those of {name}" for name in ("HyperQueue", "gflow")
    ]
    bound = Bound(1.0, 2.5, is_floor=True)
    if not setting.with_peers:
        yield Row(whats[0], bound, None, NO_PEERS)
        yield Row(whats[1], None, None, NO_PEERS)
        return
    words = ("--jobs", "40", "--gpus", "8", "--quiet", "4") if setting.is_quick else ()
    lack = gflow.lacking()
    found, theirs = in_turns(
        lambda: documents("live.short_jobs", *words)[0],
        lambda: None if lack else gflow.jobs_per_s(5 if setting.is_quick else 50),
        setting.runs,
    )
    measured = [each for each in found if "of_hyperqueue" in each]
    if measured:
        best = max(measured, key=lambda each: float(each["of_hyperqueue"]))
        said = f"ours {best['per_s']} a second, HyperQueue {best['hyperqueue']['per_s']}; "
        said += "pair by pair " + ", ".join(str(each["of_hyperqueue"]) for each in measured)
        yield Row(whats[0], bound, best["of_hyperqueue"], said)
    else:
        yield Row(whats[0], bound, None, "not installed: pip install hyperqueue==0.27.0")
    ours_per_s = max(each["per_s"] for each in found)
    gflow_per_s = max((each for each in theirs if each is not None), default=None)
    if gflow_per_s is None:
        yield Row(whats[1], None, None, lack)
    else:
        said = f"ours {ours_per_s} a second, gflow {gflow_per_s:.2f}"
        yield Row(whats[1], None, ours_per_s / gflow_per_s, said)


GROUPS: dict[str, Callable[[Setting], Iterator[Row]]] = {
    "loops": loops,
    "counts": counts,
    "peers": peers,
    "processes": processes,
    "rounds": rounds,
    "verification": verification,
    "start": start,
    "short_jobs": short_jobs,
    "million": million,
}


def main() -> None:
    """Measure, and print the table as it comes."""
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("--peers", action="store_true", help="run the other programs as well")
    parser.add_argument(
        "--trace", type=Path, default=TRACES / "philly.csv", help="Philly; default: %(default)s"
    )
    parser.add_argument("--only", default=",".join(GROUPS), help="groups of rows; default: all")
    parser.add_argument("--best-of", type=int, default=3, help="runs of each; default: 3")
    parser.add_argument("--quick", action="store_true", help="all once and small")
    options = parser.parse_args()
    if unknown := [name for name in options.only.split(",") if name not in GROUPS]:
        parser.error(
            f"--only: there are no rows {', '.join(unknown)}; there are {', '.join(GROUPS)}"
        )
    if not options.trace.exists():
        sys.exit(f"there is no trace {options.trace}; name one with --trace PATH")
    before = None
    if options.before is not None:
        before = Checkout(options.before.resolve())
        if not (before.root / "shunter").is_dir():
            sys.exit(f"{options.before} is no checkout of Shunter")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"loop of benchmarks/loop.py {loop_s():.2f} CPU s; load of the machine {load}")
    if options.quick:
        print("quick: no number means anything")
    print(line("what", "measured", "must", "aim"), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(
            options.trace.resolve(),
            Path(folder),
            1 if options.quick else options.best_of,
            before,
            options.peers,
            options.quick,
        )
        failed = False
        for name in options.only.split(","):
            try:
                for row in GROUPS[name](setting):
                    print(row.text(), flush=True)
            except SystemExit as error:
                print(f"{name} failed: {error}", file=sys.stderr)
                failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
