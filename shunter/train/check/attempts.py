"""Attempts of one script, as a supervisor would start them: a file that asks, a FIFO that answers.

All attempts of a run share a working folder and a folder of checkpoints. Each is a process of its
own and begins with another seed.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Tuple

from shunter.train import channel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

Record = Dict[str, Any]
Ask = Optional[Tuple[str, int]]
LIMIT_S = 300
CUT, LOST, RANKS = "half a checkpoint", "a part of a checkpoint", "a checkpoint of other ranks"
_END_S = 10
_LISTEN_S = 0.01
QUIET = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
# What a job's own environment would say of itself.
_INHERITED_MEANS = ("SHUNTER_", "SLURM_", "TORCHELASTIC_")
_INHERITED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Attempt(NamedTuple):
    """What came of one process."""

    code: int
    records: list[Record]
    told: list[Record]
    output: str

    @property
    def saw(self) -> list[Record]:
        """The records of its mini-batches."""
        return [each for each in self.records if each["what"] == "saw"]

    @property
    def is_asked(self) -> bool:
        return any(each["what"] == "asked" for each in self.records)

    @property
    def has_left(self) -> bool:
        return self.code == channel.EXIT_SUSPENDED


class Script:
    """A script that attempts run; a context, which ends its warm process.

    Args:
        script: the file.
        words: its arguments.
        limit_s: the seconds that an attempt may take.
        links: what lies in the folder in which it runs, under its own name.
        hash_seed: of all attempts: it decides the order of sets.
    """

    def __init__(
        self,
        script: Path,
        words: Sequence[str],
        limit_s: int = LIMIT_S,
        *,
        links: Sequence[Path] = (),
        hash_seed: int = 0,
    ) -> None:
        self.words = list(words)
        self._limit_s = limit_s
        self._links = links
        environment = {**_surroundings(), **QUIET, "PYTHONHASHSEED": str(hash_seed)}
        self._warm = subprocess.Popen(
            [sys.executable, "-m", "shunter.train.check.warm", str(script.resolve())],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
            start_new_session=True,  # Ctrl-C is for the check alone, which ends this
        )
        self._environment = environment

    def __enter__(self) -> Script:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._warm.stdin is not None
        with suppress(BrokenPipeError):
            self._warm.stdin.close()
        if kind is not None:
            self._warm.terminate()  # it ends the script that it runs
        try:
            self._warm.wait(self._limit_s if kind is None else _END_S)
        except subprocess.TimeoutExpired:
            self._warm.kill()
            self._warm.wait()

    def run(
        self,
        folder: Path,
        ask: Ask,
        workers: int | None,
        number: int = 1,
        more: Mapping[str, str] | None = None,
    ) -> Attempt:
        """Run it as the attempt of that number, under a channel.

        Args:
            folder: of all attempts of this run.
            ask: when to ask it to leave (see `watching.Watcher`).
            workers: how many a loader has.
            number: of the attempt; it is the seed as well.
            more: what its environment has besides.

        Raises:
            OSError: the process that imports for all attempts has ended.
        """
        own = folder / f"attempt-{number}"
        own.mkdir(parents=True)
        line = own / "channel"
        os.mkfifo(str(line))
        with _Heard(line) as heard:
            code = self._ran(
                folder,
                own,
                ask,
                workers,
                number,
                {
                    channel.CHANNEL: str(line),
                    channel.SUSPEND: str(own / "suspend"),
                    channel.CHECKPOINTS: str(folder / "checkpoints"),
                    channel.ATTEMPT: str(number),
                    **(more or {}),
                },
            )
        return Attempt(code, _records(own), heard.records(), _text(own / "output"))

    def run_alone(self, folder: Path, workers: int | None) -> Attempt:
        """Run it to its end outside Shunter."""
        own = folder / "attempt-1"
        own.mkdir(parents=True)
        code = self._ran(folder, own, None, workers, 1, {})
        return Attempt(code, _records(own), [], _text(own / "output"))

    def _ran(
        self,
        folder: Path,
        own: Path,
        ask: Ask,
        workers: int | None,
        number: int,
        told: Mapping[str, str],
    ) -> int:
        work = folder / "work"
        work.mkdir(exist_ok=True)
        for path in self._links:
            if not (work / path.name).exists():
                (work / path.name).symlink_to(path.resolve())
        request = {
            "folder": str(work),
            "environment": {**self._environment, **told},
            "output": str(own / "output"),
            "records": str(own / "records"),
            "ask": ask,
            "workers": workers,
            "seed": number,
            "limit_s": self._limit_s,
            "words": self.words,
        }
        assert self._warm.stdin is not None
        assert self._warm.stdout is not None
        with suppress(BrokenPipeError):
            self._warm.stdin.write(json.dumps(request) + "\n")
            self._warm.stdin.flush()
        ended = self._warm.stdout.readline()
        if not ended:
            code = self._warm.wait(self._limit_s)
            raise OSError(f"importing what it imports ends the process, with status {code}")
        return int(ended)


def _surroundings() -> dict[str, str]:
    """Return this environment, but for what it says of a job."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_INHERITED_MEANS) and name not in _INHERITED
    }


class _Heard:
    """What comes through a FIFO while an attempt runs.

    A FIFO holds 64 kB only, and then loses lines. A context; afterwards `records` are all that was
    told.
    """

    def __init__(self, line: Path) -> None:
        self._reader = os.open(str(line), os.O_RDWR | os.O_NONBLOCK)
        self._said = bytearray()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> _Heard:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()
        os.close(self._reader)

    def records(self) -> list[Record]:
        return _parsed(self._said.decode(errors="replace"))

    def _listen(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._is_over.is_set()  # what came before that is still read
            if select.select([self._reader], [], [], 0 if is_last else _LISTEN_S)[0]:
                is_last = False
                with suppress(BlockingIOError):
                    self._said += os.read(self._reader, 1 << 16)


def _records(own: Path) -> list[Record]:
    return _parsed(_text(own / "records"))


def _parsed(text: str) -> list[Record]:
    """Return the lines that say what they are; a script may write others."""
    found = []
    for line in text.splitlines():
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and "what" in record:
                found.append(record)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


# What may come of a checkpoint between two attempts: a disk was full, a copy was cut off, a folder
# was tidied, or other ranks read it. Resumed without a word, a run trains on with something else.

_AS_ONE_OF_TWO = {channel.RANK: "0", channel.WORLD: "2"}


def damaged(damage: str, attempt: Attempt) -> dict[str, str] | None:
    """Damage the checkpoint that an attempt has left.

    Returns:
        What the environment of the next attempt has besides; None: nobody said where it saved.
    """
    told = [each["checkpoint"] for each in attempt.told if each["what"] == "saved"]
    files = [path for path in sorted(Path(told[-1]).rglob("*")) if path.is_file()] if told else []
    if not files:
        return None
    if damage == CUT:
        for path in files:
            os.truncate(path, path.stat().st_size // 2)
    elif damage == LOST:
        max(files, key=lambda path: path.stat().st_size).unlink()
    return _AS_ONE_OF_TWO if damage == RANKS else {}
