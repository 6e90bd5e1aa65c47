"""Which sizes an elastic job may be given: those it was submitted with, all on one server.

Its own bounds are looked at here; whether the GPUs are free is for the draft to say, as of others.
"""

from shunter.core.state import Job
from shunter.events.values.allocation import Allocation
from shunter.events.values.job_spec import JobSpec, SuspendMode
from shunter.events.values.reasons import Reason

KEEPS_STATE = (SuspendMode.cooperative, SuspendMode.signal)
"""The modes that end an attempt with all its work saved, for another number of processes."""


def unfit_for_sizes(spec: JobSpec) -> tuple[str, str] | None:
    """Return the field of a job that contradicts its sizes, and why; None: none.

    Args:
        spec: what is submitted; one that is not elastic contradicts nothing.
    """
    if not spec.is_elastic:
        return None
    fewest, most = spec.sizes
    if not spec.gpus:
        field = "gpus_min" if spec.gpus_min is not None else "gpus_max"
        return field, "expected a job with GPUs"
    if spec.gpus_min is not None and spec.gpus_max is not None and fewest > most:
        return "gpus_min", f"expected gpus_max = {most} at most"
    if fewest < 1:
        return "gpus_min", "expected 1 at least"
    if fewest > spec.gpus:
        return "gpus_min", f"expected gpus = {spec.gpus} at most, with which it starts"
    if most < spec.gpus:
        return "gpus_max", f"expected gpus = {spec.gpus} at least, with which it starts"
    if spec.suspend_mode not in KEEPS_STATE:
        modes = " or ".join(KEEPS_STATE)
        return "suspend_mode", f"expected {modes}: a job that is resized has to keep its state"
    return None


def refused_size(job: Job, target: Allocation) -> tuple[Reason, str] | None:
    """Return why a plan may not give a job another size so; None: it may."""
    spec, gpus = job.submitted_spec, target.gpus
    fewest, most = spec.sizes
    if not spec.is_elastic:
        return Reason.refused, "the job is not elastic: it names neither gpus_min nor gpus_max"
    if not fewest <= gpus <= most:
        return Reason.refused, f"the job takes {fewest} to {most} GPUs, not {gpus}"
    if gpus == job.spec.gpus:
        return Reason.refused, "the job is of that size already"
    if len(target.shares) != 1:
        return Reason.refused, "a job is resized on one server"
    if spec.suspend_mode not in KEEPS_STATE:
        return Reason.refused, f"with suspend mode {spec.suspend_mode} it would lose its state"
    return None
