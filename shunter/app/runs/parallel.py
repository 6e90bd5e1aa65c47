"""The same task on many items, each run in a process of its own where there are several."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Report = Callable[[int, int], None]
"""Receives now and then how many jobs, or runs, are done, and of how many."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_all(
    task: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    report: Report | None = None,
) -> list[Result]:
    """Return what a task gives for each item, in the order of the items.

    Args:
        task: a function of a module: other processes find it by its name.
        items: what it is called with; goes to other processes and so can be pickled.
        workers: how many processes; 1 runs everything in this one.
        report: told how many items are done.
    Raises:
        ShunterError: what the task raised.
    """
    told = report or (lambda done, total: None)
    if workers == 1 or len(items) <= 1:
        return list(_run_here(task, items, told))
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Forking a process with threads is not safe everywhere, and a fresh one is as quick to start.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(items)), mp_context=context) as pool:
        futures = [pool.submit(task, item) for item in items]
        try:
            _await(futures, told)
        finally:
            # After an error or an interrupt, the runs not yet begun are not worth waiting for.
            pool.shutdown(wait=False, cancel_futures=True)
        return [future.result() for future in futures]


def _await(futures: Sequence["Future[Result]"], report: Report) -> None:
    from concurrent.futures import as_completed

    for done, future in enumerate(as_completed(futures), start=1):
        future.result()
        report(done, len(futures))


def _run_here(
    task: Callable[[Item], Result], items: Sequence[Item], report: Report
) -> Iterator[Result]:
    for done, item in enumerate(items, start=1):
        yield task(item)
        report(done, len(items))
