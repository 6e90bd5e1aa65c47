"""The reasons to wait in words: in lists, in the manual, and in the answer about one job.

This chapter imports nothing, so that a command can say why a job waits without the time that the
scheduler's modules take to load. `why/reasons.py` puts the evidence of an instant into the
sentences about one job. `docs/reference/reasons.md` is written from this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

TRY = "`--counterfactuals` tries what would start it now"
_PROPOSE = "nothing where the scheduler itself proposes; else see that its job scheduler runs"


@dataclass(frozen=True)
class ReasonWords:
    """What is said of a reason to wait.

    `clause` follows the name of a job in a list. `meaning` explains the reason in the manual, in
    Markdown, by links as from `docs/reference/`.

    The rest is said of one job, with evidence of the instant in place of the names in braces
    (`why/reasons.py` has a function for each). `because` says why the job waits, and `cause` goes
    on with it unless the next plan starts the job. `needs` are necessary, each on a line of its
    own: none of them promises a start. `waits_for` is who or what brings them about (empty: whoever
    has what the job needs), `to_do` what somebody can do (empty: wait, or the `hint`). `by_detail`
    are sentences that differ for a detail of the wait; `*` is any.
    """

    clause: str
    meaning: str
    because: str = ""
    cause: str = ""
    needs: str = ""
    waits_for: str = ""
    to_do: str = ""
    hint: str = TRY
    by_detail: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


REASONS: dict[str, ReasonWords] = {
    "no_capacity": ReasonWords(
        "too few GPUs are free",
        "Too few GPUs that it accepts are free, and the policy does not preempt. Starts when "
        "enough are: under `gandiva` with `grow_after`, the fewest that an elastic job may "
        "have. With `height_most` (in the detail of the wait) it could take turns as well, but "
        "for the height of those servers; then it starts too when a job ends or leaves there.",
        because="{short}",
        needs="{more_gpus}",
        by_detail={
            "height_most": {
                "because": "{short}; the servers on which it may take turns have as many jobs as "
                "height_most allows",
            }
        },
    ),
    "outranked": ReasonWords(
        "others come first",
        "Others rank before it, and hold or get the GPUs it would need. For a preempted job it "
        "is also the rule by which it had to leave.",
        because="{short}",
        cause="others rank before it",
        needs="{more_gpus}",
    ),
    "fragmented": ReasonWords(
        "enough GPUs are free, but not together",
        "Enough GPUs are free, but not on servers where one of the splits it accepts fits.",
        because="{room}, but not where they fit together: {pieces}",
        needs="{together}",
        hint="or submit it with other splits (--shape)",
    ),
    "locality_not_met": ReasonWords(
        "free GPUs are too far apart",
        "Enough GPUs are free, but not as near together as it asks (`max_level`, or `min_speed` "
        "with its tolerance curve), or as its [placement](placement.md) wants a gang of a "
        "skewed model. Under placement `topology` running jobs may be [moved for "
        "it](placement.md#room-for-gangs).",
        because="{room}, but not {nearness}: {pieces}",
        needs="{together}",
        hint="or submit it with another --max-level, --shape or --min-speed",
    ),
    "cpu_or_memory_short": ReasonWords(
        "too few CPUs or too little memory beside the GPUs",
        "There would be a place for it, but the servers of the free GPUs have too few CPUs or "
        "too little memory left. `why` says how much it needs beside its GPUs and what the "
        "servers have for it, the roomiest first. With `policy.sizing` it needs the share that "
        "it is guaranteed, and others count with theirs, since they give up what they have "
        "above it, but for those whose server refused that (`ReshapeRefused`). Where Slurm "
        "gives nodes to other people's jobs too, `why` and `queue --explain` say what these "
        "hold.",
        because="{beside}",
        needs="jobs on servers with free GPUs give back CPUs or memory, or other GPUs come free",
        hint="or submit it with fewer CPUs or less memory",
    ),
    "quota": ReasonWords(
        "its queue has reached its quota",
        "Its queue has used up its hard quota of GPUs, or would exceed it.",
        because="queue {queue} has {free_gpus} of its quota left, it needs {needed}{quota_used}"
        "{quota_now}",
        needs="jobs of queue {queue} give back {quota_missing}, or its quota is raised",
    ),
    "gpu_type_unavailable": ReasonWords(
        "no GPU of the type is free",
        "No server with a GPU type that it accepts is part of the cluster any more. A job that "
        "asks for a type the cluster never had is rejected as `infeasible`. From `gavel`, with "
        "the detail `throughput`: the table says that its model gets on with no GPU type that "
        "is up.",
        because="no server with GPUs{types} is up",
        needs="a server with such GPUs joins or comes back",
        waits_for="a server with GPUs that it accepts",
        to_do="add a server with such GPUs, or submit it with other types (--type)",
        by_detail={
            "throughput": {
                "because": "by the throughputs that are known, its model gets on with no GPU type "
                "that is up",
                "needs": "a server with other GPUs joins, or its throughputs are measured anew",
                "waits_for": "a GPU type on which its model gets on",
            }
        },
    ),
    "node_lost": ReasonWords(
        "too few GPUs are in service",
        "Fewer GPUs are in service than it needs, because servers are drained, do not answer or "
        "are lost, or single GPUs are set aside; `why` and `queue --explain` name them and say "
        "which of these they are. Or it has just lost its own server, until the next round "
        "looks at it.",
        because="it needs {needed_gpus}, and {most_up} are in service: {service}",
        needs="servers come back into service or join, until enough GPUs are up",
        waits_for="{down}",
        to_do="{bring_back}",
        by_detail={
            "*": {
                "because": "its last attempt was lost ({detail}), and no round has looked at it "
                "since",
                "waits_for": "{next_round}",
                "to_do": "",
            }
        },
    ),
    "node_drained": ReasonWords(
        "too few GPUs are in service",
        "The same, where all servers out of service are drained by somebody's order. A round "
        "records `node_lost` for both; `why`, `queue` and `replay` tell them apart by the state "
        "of the servers.",
        because="it needs {needed_gpus}, and {most_up} are in service: {service}",
        needs="servers come back into service or join, until enough GPUs are up",
        waits_for="{down}",
        to_do="{bring_back}",
    ),
    "gpus_quarantined": ReasonWords(
        "too few GPUs are in service",
        "The same, where all servers are in service, and single GPUs of them are set aside "
        "(`shunter nodes quarantine`, or since they failed). It is told apart in the same way.",
        because="it needs {needed_gpus}, and {most_up} are in service: {service}",
        needs="servers come back into service or join, until enough GPUs are up",
        waits_for="{down}",
        to_do="{bring_back}",
    ),
    "gpus_taken": ReasonWords(
        "others hold too many of the GPUs",
        "There would be enough GPUs in service, but others than Shunter hold some of them now "
        "(other people's jobs in Slurm). A round records `node_lost` for this too; it is told "
        "apart in the same way, with what they hold as detail. It waits until they leave as "
        "many as it misses.",
        because="it needs {needed_gpus}, and beside what others hold there are {most_up}: {taken}",
        needs="others leave {over} or more of one type, or servers join",
        waits_for="{holders_outside}",
    ),
    "guard_min_runtime": ReasonWords(
        "who holds the GPUs may not be preempted yet",
        "Enough GPUs are held by jobs that rank lower, but their minimum runtime is not over. "
        "It begins with the first mini-batch, or where a job tells of none 1, 2, 4 and 8 "
        "minutes after the starts of its first four attempts, and with the start of later ones. "
        "Until it is launched a job keeps what it was given; that is told so too, with or "
        "without a minimum runtime, where another guard is configured.",
        because="{short}",
        cause="others {keep}",
        needs="{runtime_ends}, or GPUs come free otherwise",
    ),
    "guard_preemption_limit": ReasonWords(
        "who holds the GPUs may never be preempted, or not again so soon",
        "The same, because they have been preempted as often as they may, or may never be "
        "suspended.",
        because="{short}",
        cause="others may not be preempted: never, or not again so soon "
        "(max_preemptions_per_job_hour)",
        needs="{guard_ends}, or GPUs come free otherwise",
    ),
    "share_met": ReasonWords(
        "it has had its share of time",
        "The policy divides time, and the job has had its share of a GPU type up to now: others "
        "have their turn. The detail is `share:TYPE:TARGET:RECEIVED`; `why` says *got a 0.35 "
        "share of v100 where it was to have 0.33*. Its turn comes as others get theirs.",
        because="{share}; {short}",
        needs="its turn comes, as others get their shares",
    ),
    "time_sliced": ReasonWords(
        "it takes turns with others",
        "The same, but it is still owed a part of its share: others are owed more, or its gang "
        "does not fit beside them.",
        because="{share}; {short}",
        needs="its turn comes, as others get their shares",
    ),
    "waiting_for_round": ReasonWords(
        "the next round decides",
        "No round has looked at it yet, and nobody who asks for the same waits: with them it "
        "has their reason from the first. Rounds come at fixed instants; with `trigger = "
        '"event"` this is over within the instant. A job that has lost its GPUs waits for what '
        "it lost them for (`outranked`, `node_lost`, `displaced`) until a round says more.",
        because="no round has looked at it yet",
        needs="{round_with_room} finds room for it{as_things_are}",
        waits_for="{next_round}",
    ),
    "waiting_for_release": ReasonWords(
        "it was granted GPUs that others have yet to leave",
        "It was granted GPUs, and the jobs named as blockers have yet to leave them: they are "
        "being suspended, save a checkpoint, or end. It is launched on those GPUs as soon as "
        "the last of them is released. Not recorded: `why`, `queue`, `show` and `/metrics` tell "
        "it of jobs in the state `granted`. `needed` are the GPUs it was granted, `free` those "
        "of them that are released already.",
        because="it was granted {needed_gpus}, of which others have yet to leave {to_leave}",
        needs="the GPUs that it was granted are left by {blockers}",
    ),
    "dependency": ReasonWords(
        "it waits for other jobs to end",
        "Another job must end first. Recorded with the job itself, not by a round.",
        because="it depends on {there}, which must end first",
        needs="{others_end}",
        hint="`shunter show` of that job says how far it is",
    ),
    "array_limit": ReasonWords(
        "it is not its turn in its array",
        "As many tasks of its array run as may at once (`--array 0-9%3`). Its turn comes when "
        "one of them ends. The detail is `array:N`. Recorded with the job itself, not by a "
        "round.",
        because="{tasks} of array {array} may run at once, and {turns} first",
        needs="a task of array {array} that has its turn ends, or gives it up",
    ),
    "held": ReasonWords(
        "held: `shunter resume` lets it start",
        "Somebody put it on hold. Recorded with the job itself, not by a round.",
        because="{held}",
        needs="it is released",
        waits_for="{holder} to let it go on",
        to_do="`shunter resume {job}` lets it start",
    ),
    "backing_off": ReasonWords(
        "its last attempt failed, was lost or left by itself; it is tried again",
        "Its launch failed in a way that may work later, it failed by itself and has retries "
        "left, it left with exit code 75 though nobody had asked it to, or its attempts were "
        "lost soon after they began, again and again: it waits a while before the next launch, "
        "[longer each time](../explanation/live-daemon.md#launches-that-fail). `why` says until "
        "when, which is `JobHeld.until_us`; `shunter resume` ends the wait at once. Recorded "
        "with the job itself (`JobHeld` by `backing_off`), not by a round.",
        because="{last_attempt}",
        needs="its wait between two launches is over{back_at}, or it is resumed before",
        waits_for="{next_attempt}",
        to_do="{logs}`shunter resume {job}` starts it at once",
    ),
    "checkpoint_unreachable": ReasonWords(
        "its checkpoint lies on a server that does not answer",
        "Its newest checkpoint lies on a server that does not answer. The detail names the "
        "server. It waits until that server answers or is lost, or until its owner gives the "
        "checkpoint up (`shunter admin discard-checkpoint`). Only where servers share no folder "
        "for checkpoints; recorded with the job itself (`JobHeld` by `checkpoint`), not by a "
        "round.",
        because="{unreachable}",
        needs="the server answers again or is lost for good, or its owner gives the checkpoint up: "
        "`shunter admin discard-checkpoint {job}`",
        waits_for="{silent}",
        to_do="bring that server back, or give the checkpoint up: `shunter admin "
        "discard-checkpoint {job}`",
    ),
    "checkpoint_stays": ReasonWords(
        "its checkpoint is too large to be copied, and its server has no room",
        "What it saved has more files than [are copied](../how-to/share-servers-over-ssh.md) to "
        "another server, so it goes on where that lies, and its server, which the detail names, "
        "has no room for it now. It waits for that, and nobody else is preempted for a launch "
        "that would fail. To move it, make the folder smaller and `shunter resume JOB`; "
        "`shunter admin discard-checkpoint JOB` lets it begin again elsewhere. A job of one server "
        "only; recorded with the job itself (`JobHeld` by `checkpoint_stays`), not by a round.",
        because="{too_large}",
        needs="GPUs for it come free on {home}, or what it saved there is made smaller and then "
        "`shunter resume {job}` lets it be copied, or its owner gives the checkpoint up: `shunter "
        "admin discard-checkpoint {job}`",
        waits_for="room on {home}, where what it saved is",
        to_do="wait for room there; or make that folder smaller, then `shunter resume {job}`; or "
        "give it up: `shunter admin discard-checkpoint {job}`",
    ),
    "split_kept": ReasonWords(
        "free GPUs are not split over servers as its checkpoints are",
        "Enough GPUs are free, but not on servers where the split fits that its checkpoints are "
        "of: it began with so many GPUs on each server, and only as many processes can load "
        "what they saved. With `--split-may-change` a job says that others can. Live clusters "
        "only.",
        because="it needs {needed_gpus}, and {free} are free for it, but not as {split} a server, "
        "the split over servers that its checkpoints are of",
        needs="GPUs come free on servers so that its split fits, or it is submitted anew with "
        "--split-may-change, if another number of processes can load its checkpoints",
        to_do="wait until its split fits, or submit it with --split-may-change, if another number "
        "of processes can load its checkpoints",
    ),
    "displaced": ReasonWords(
        "others have what it was to start on; the next round decides",
        "It was to start on GPUs that others turned out to have: Slurm started another job "
        "there, or jobs that are not Shunter's hold them, or so many CPUs or so much memory of "
        "the server that too little is left for it. Its attempt is withdrawn, and it waits as "
        "before, without a back-off. The blocker is the job that has the GPUs now, the detail "
        "the server where strangers have them; the scores of its `AllocationChanged` are the "
        "GPUs, CPUs and MB that they hold there. With `policy.sizing` another job may have kept "
        "CPUs or memory of a server that it was to give up (`ReshapeRefused`): that is then the "
        "blocker, and the server the detail. It holds until the next round looks at the job; "
        "not recorded by a round, but as the rule of the `AllocationChanged` that took the "
        "GPUs.",
        because="{displaced}, and no round has looked at it since",
        needs="{round_with_room} finds room for it{as_things_are}",
        waits_for="{next_round}",
    ),
    "awaiting_proposal": ReasonWords(
        "the order lets it start; no place was proposed for it yet",
        "The order lets it start, and no place was proposed for it yet that could be granted: "
        "its scheduler found none in its view, or nobody has called. Only with "
        "`policy.decentralised`; not recorded: `why`, `queue`, `show` and `/metrics` tell it of "
        "admitted jobs (`RoundPlanned.admitted`).",
        because="the order lets it start, and {proposal}",
        waits_for="its job scheduler, which has to propose a place",
        to_do=_PROPOSE,
    ),
    "proposal_rejected": ReasonWords(
        "the order lets it start; its last proposal was rejected",
        "The same, and its last proposal was rejected (`GangRejected`). The detail is the masks "
        "of the GPUs that were not free for it, by server: they are another job's, or kept for "
        "one that was rejected too often. `why` says when that was, how often in a row, and "
        "from when on it is proposed again.",
        because="the order lets it start, and {proposal}",
        waits_for="its job scheduler, which has to propose again",
        to_do=_PROPOSE,
    ),
    "infeasible": ReasonWords(
        "it can never run here",
        "It can never run here, whatever ends: the job was rejected, with what it needs and the "
        "most there is.",
    ),
    "refused": ReasonWords(
        "the approver refused the change",
        "The approver refused a change that broke an invariant of plans, or a user may not use "
        "a queue.",
    ),
}
"""What is said of each reason; a test holds its keys to `Reason`."""
