"""A pytest plugin: tests are read once, and run in processes forked from the one that read them.

    python -m pytest -p tests.forked --forks auto

A worker of xdist is a new interpreter that reads all files again. Here it is forked when they have
been read. The files wait in a pipe, and a worker takes the next one before the last test of its
own, so that what a file builds for all of its tests is built once. Reports go to the first process,
which prints them; a worker that dies fails the test in which it died.
"""

import gc
import os
import signal
import sys
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, pairwise
from multiprocessing.connection import Connection, Pipe, wait
from typing import NoReturn

import pytest

__all__ = ["Forks", "Worker", "pytest_addoption", "pytest_configure"]

AUTO_MOST = 8
"""More workers than this only wait for what a few long files do."""
NUMBER_BYTES = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that says how many processes run tests."""
    parser.addoption("--forks", metavar="N", help="run tests in N forked processes, or: auto")


def pytest_configure(config: pytest.Config) -> None:
    """Run tests in forks if that is asked for."""
    asked = config.getoption("--forks")
    if asked:
        cores = min(AUTO_MOST, len(os.sched_getaffinity(0)))
        config.pluginmanager.register(Forks(cores if asked == "auto" else int(asked)))


class Forks:
    """The process that reads the tests, forks workers, and publishes what they report."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.running: dict[Connection, int] = {}
        """The process of each worker that has not ended."""
        self.at: dict[Connection, int] = {}
        """The number of the test that a worker is running."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Read the tests without looking for garbage: nearly all that is read stays."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.enable()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the tests in forks, unless pytest's own loop would run none or only one."""
        if session.config.option.collectonly or session.testsfailed or len(session.items) < 2:
            return None
        # The folders of all tests lie in one, which the first to ask for it makes.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # none public
        gc.collect()
        gc.freeze()  # no worker looks through what all of them were given
        try:
            self._fork(session)
            while self.running:
                for ready in wait(list(self.running)):
                    assert isinstance(ready, Connection)
                    self._receive(session, ready)
        finally:
            for process in self.running.values():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            gc.unfreeze()
        return True

    def _fork(self, session: pytest.Session) -> None:
        """Put the numbers of all files into a pipe, and start the workers that take them out."""
        files = _files(session.items)
        numbers, writes = os.pipe()
        os.write(writes, b"".join(n.to_bytes(NUMBER_BYTES, "big") for n in range(len(files))))
        os.close(writes)
        sys.stdout.flush()
        sys.stderr.flush()
        for _ in range(min(self.most, len(files))):
            reports, reporting = Pipe(duplex=False)
            process = os.fork()
            if not process:
                Worker(session, files, numbers, reporting).run()
            reporting.close()
            self.running[reports] = process
        os.close(numbers)

    def _receive(self, session: pytest.Session, worker: Connection) -> None:
        """Publish the next message of a worker, or note that it has ended."""
        hook = session.config.hook
        try:
            about, what = worker.recv()
        except EOFError:
            _, status = os.waitpid(self.running.pop(worker), 0)
            if status:
                self._died(session, worker, os.waitstatus_to_exitcode(status))
            return
        if about == "begins":
            self.at[worker] = what
        elif about == "report":
            report = hook.pytest_report_from_serializable(config=session.config, data=what)
            hook.pytest_runtest_logreport(report=report)
        elif about == "ends":
            item = session.items[self.at.pop(worker)]
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            _stop_if_asked(session)
        else:
            raise RuntimeError(what)

    def _died(self, session: pytest.Session, worker: Connection, code: int) -> None:
        """Fail the test in which a worker died; say that the tests after it did not run."""
        said = f"the process of this test ended with {code}; the tests after it did not run"
        if worker not in self.at:
            raise RuntimeError(f"between two tests, {said}")
        item = session.items[self.at.pop(worker)]
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        _stop_if_asked(session)


def _files(items: Sequence[pytest.Item]) -> list[list[int]]:
    """Return the numbers of the tests of each file, those with a long test first."""

    def is_long(numbers: list[int]) -> bool:
        return any(items[number].get_closest_marker("long") for number in numbers)

    numbered = groupby(range(len(items)), lambda number: items[number].path)
    return sorted((list(found) for _, found in numbered), key=is_long, reverse=True)


def _stop_if_asked(session: pytest.Session) -> None:
    """Stop where -x or --maxfail say so."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


class Worker:
    """A forked process: it takes files, runs their tests, and reports to its parent."""

    def __init__(
        self,
        session: pytest.Session,
        files: Sequence[Sequence[int]],
        numbers: int,
        parent: Connection,
    ) -> None:
        self.session = session
        self.files = files
        self.numbers = numbers
        self.parent = parent

    def run(self) -> NoReturn:
        """Run tests until no file is left, and end the process whatever happens."""
        try:
            self._detach()
            for number, following in self._tests():
                self.parent.send(("begins", number))
                item = self.session.items[number]
                after = None if following is None else self.session.items[following]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                self.parent.send(("ends", number))
        except KeyboardInterrupt:  # the parent has it too, and says so
            os._exit(0)
        except BaseException:  # noqa: BLE001 nothing is above it, and the parent raises it again
            self.parent.send(("broke", traceback.format_exc()))
            os._exit(1)
        os._exit(0)

    def _detach(self) -> None:
        """Print nothing, and capture the output of tests into files of this process's own."""
        plugins = self.session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(self)
        if (capture := plugins.getplugin("capturemanager")) is not None:
            capture.stop_global_capturing()
            capture.start_global_capturing()

    def _tests(self) -> Iterator[tuple[int, int | None]]:
        """Yield the numbers of a test and of the one that follows it, as long as there are any."""
        taken = self._take()
        while taken:
            yield from pairwise(taken)
            following = self._take()
            yield taken[-1], following[0] if following else None
            taken = following

    def _take(self) -> Sequence[int]:
        """Return the tests of the next file that nobody took, none if all are taken."""
        number = os.read(self.numbers, NUMBER_BYTES)
        return self.files[int.from_bytes(number, "big")] if number else ()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report to the parent."""
        config = self.session.config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self.parent.send(("report", data))
