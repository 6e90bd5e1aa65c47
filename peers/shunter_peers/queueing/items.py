"""What a peer policy remembers of a job: the clocks of the simulator that it plays."""

from dataclasses import dataclass

from shunter.core import Job, View
from shunter.events import Demand, JobId

SECOND_US = 1_000_000


@dataclass(slots=True, eq=False)
class Item:
    """A job, in whole seconds, as all peers of this kind count.

    It has run `executed_s` and waited `pending_s` before `since_s`, when it began to do what it
    does now; both are counted since its last promotion. `begun_s` is when a running job would have
    begun, had it never stopped (-1: it does not run). `place` is its place in the order of its
    queue, among those that run or among those that wait; or it has a `key` to be sorted by, which
    changes at `changes_s`. `length_s` is the work it had left at `since_s`, for oracles.
    """

    job_id: JobId
    ordinal: int
    demand: Demand
    gpus: int
    submit_s: int
    since_s: int
    queue: int = 0
    runs: bool = False
    begun_s: int = -1
    executed_s: int = 0
    pending_s: int = 0
    place: int = 0
    key: int = 0
    length_s: int = 0
    changes_s: int = 0


def item_of(job: Job, view: View) -> Item:
    """Return the item of a job in whatever state the view shows it.

    Of a job met in the middle of its life it is not known when it was promoted: never, then.
    """
    now_s = view.now_us // SECOND_US
    demand, submit_s = job.demand, job.submitted_us // SECOND_US
    item = Item(job.job_id, job.ordinal, demand, demand.gpus, submit_s, now_s)
    item.executed_s = job.occupied_us(view.now_us) // SECOND_US
    return item
