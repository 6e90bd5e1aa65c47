"""The same task on many items, each run in a process of its own where there are several."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Report = Callable[[int, int], None]
"""Receives now and then how many jobs, or runs, are done, and of how many."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_all(
    task: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    report: Report | None = None,
    finished: dict[int, Result] | None = None,
) -> list[Result]:
    """Return what a task gives for each item, in the order of the items.

    Args:
        task: a function of a module: other processes find it by its name.
        items: what it is called with; goes to other processes and so can be pickled.
        workers: how many processes; 1 runs everything in this one.
        report: told how many items are done.
        finished: where each result is put as it comes, by its place: what there is of an interrupt.
    Raises:
        ShunterError: what the task raised.
    """
    told = report or (lambda done, total: None)
    results: dict[int, Result] = {} if finished is None else finished
    if workers == 1 or len(items) <= 1:
        for place, item in enumerate(items):
            results[place] = task(item)
            told(len(results), len(items))
        return list(results.values())
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Forking a process with threads is not safe everywhere, and a fresh one is as quick to start.
    context = multiprocessing.get_context("spawn")
    before = multiprocessing.active_children()
    with ProcessPoolExecutor(
        min(workers, len(items)), mp_context=context, initializer=_leave_interrupts
    ) as pool:
        places = {pool.submit(task, item): place for place, item in enumerate(items)}
        try:
            for future in as_completed(places):
                results[places[future]] = future.result()
                told(len(results), len(items))
        finally:
            # After an error or an interrupt no other run is worth waiting for.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children() if len(results) < len(items) else ():
                if child not in before:
                    child.terminate()
    return [results[place] for place in range(len(items))]


def _leave_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all: the parent ends the others."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
