"""What runs on a node: the agent, and the supervisor of each attempt, which outlives the daemon.

This folder needs the standard library only, of Python 3.8 or later, so that it can be pushed to any
host (backends/live/transport.py makes one file of it). A verb loads what it needs and no more.

    verbs               what a process can be asked to do; session, pilot: many questions in turn
    supervision         an attempt from its start to its end; ranks: its processes
    launchers           whom of these a signal asks to leave
    supervisors         those of an agent, which go on from one short attempt to another
    attempts            the state of attempts from outside, and how they end
    messages            what is said and written, each declared once; shapes: how that is checked
    journal             what a job says, what is noted of it, and what it is told
    records             files, locks and processes, as all of these use them
    sampling, output    what an attempt uses and prints
    cgroups, shares     what holds it to its CPUs and memory
    turns, rotator, rotation    several attempts on the same GPUs, one after the other
    ownership           whose the node is, and whether that scheduler is alive
    batch               an attempt that is a batch job of its own
    host                users, files, GPUs and wiring of the host

A root folder holds `jobs/JOB/ATTEMPT/` with all that is known of an attempt:

    lock        flock held by the supervisor: free means that it is gone
    ranks.lock  the ranks and their children inherit it open: nobody has it open, so they are gone
    started     written before the first exec; with `lock` free and without it: never started
    status      written after the last process was reaped: how the attempt ended
    reserve     a file that only takes room while the attempt runs, and becomes its status: so that
                a job that has filled the disk can be seen to end
    journal     one line each time a suspension was asked for, acknowledged, saved, escalated, and
                each time the processes were stopped or went on
    sample      how far and how fast it is, and what it uses; replaced every few seconds
    suspend     there once the job is asked to save and leave with exit code 75
    orders, channel     FIFOs: from the daemon, and from the job, to the supervisor
    stdout.N, stderr.N  what rank N printed, up to a bound
    stdout-times.N, …   how long that was when

Records are written, synced and renamed. Times are nanoseconds of the monotonic clock of this boot.
"""

try:
    from lazy_loader import attach_stub
except ImportError:  # on a node there is the standard library only, and every chapter is named
    __all__ = ()
else:
    __getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
