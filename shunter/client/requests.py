"""Requests and answers as data, the same for both clients, and what errors and streams become.

An answer is the JSON document itself, under the names that docs/reference/http-api.md gives.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from shunter import __version__
from shunter.client.job_request import JobOptions
from shunter.errors import (
    ConflictError,
    NotFoundError,
    RateLimitedError,
    RefusedError,
    ShunterError,
    UnavailableError,
    UnreachableError,
    UsageError,
)

Answer = dict[str, Any]
"""A JSON document."""

V1 = "/api/v1"
WHOLE_MOST = 2**63 - 1
"""The largest whole number that a log holds."""

_INSTANTS = ("at", "since")
"""The parameters that may be dates."""

_LARGEST_MOST = 5
"""So many of the largest variables are named where a submission is too large."""

_SHOWN_MOST = 60
"""So many letters of a wrong text are shown."""

_ERRORS: dict[str, type[ShunterError]] = {
    **dict.fromkeys(("too_large", "not_allowed"), UsageError),
    "unauthenticated": RefusedError,
    **{
        each.code: each
        for each in (UsageError, RefusedError, ConflictError, RateLimitedError, NotFoundError)
    },
    UnavailableError.code: UnavailableError,
}


@dataclass(frozen=True)
class Ask:
    """One request; one that `is_slow` is answered only when much was computed.

    `if_too_large` is what to do where the daemon refuses the size of its body, `if_unknown` what
    it means where the daemon has no such path.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    is_slow: bool = False
    if_too_large: str = ""
    if_unknown: str = ""


def read(path: str, *parts: str, **params: object) -> Ask:
    """Return a request that changes nothing; parameters that are None are left out.

    Args:
        path: below /api/v1, with `{}` for each part.
        parts: ids and names; they cannot leave their place in the path.
        params: the query; a date without offset is one of the time zone here.
    Raises:
        UsageError: a text holds bytes that are no UTF-8.
    """
    _check_utf8(params)
    said = {name: _text(value) for name, value in params.items() if value is not None}
    for name in filter(said.__contains__, _INSTANTS):
        said[name] = _with_offset(said[name])
    return Ask("GET", _path(path, parts), said)


def act(path: str, *parts: str, body: Mapping[str, object] | None = None) -> Ask:
    """Return a request that changes something.

    Raises:
        UsageError: a number is none, infinite, or more than any job can have.
    """
    if body is None:
        return Ask("POST", _path(path, parts))
    return Ask(
        "POST",
        _path(path, parts),
        headers={"Content-Type": "application/json"},
        body=_dumped(body),
    )


def together(do: str, job_ids: Sequence[str]) -> Ask:
    """Return the request that gives jobs one order in one step.

    Daemons before 0.1.0 do not take it.
    """
    ask = act(f"/jobs/{do}", body={"jobs": list(job_ids)})
    return replace(
        ask,
        if_unknown=f"the daemon is older than this client (Shunter {__version__}): it does not "
        f"take POST {ask.path}, and nothing was done; `shunter down`, then `shunter up`, takes "
        "this version, and jobs run on",
    )


def _here() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError as error:
        raise UsageError(
            "the current folder is gone: change to another one, or name the folder of the job "
            "(directory)"
        ) from error


def submission(command: Sequence[str], options: JobOptions, key: str) -> Ask:
    """Return the request that submits a job or an array.

    Raises:
        UsageError: a number is none, infinite, or more than any job can have; or a text holds
            bytes that are no UTF-8.
    """
    body: dict[str, object] = {
        name: value for name, value in options.items() if name not in ("after", "array", "key")
    }
    body["command"] = list(command)
    if "directory" not in body:
        body["directory"] = _here()
    environment = dict(options.get("environment", {}))
    body["environment"] = environment
    if "after" in options:
        body["depends_on"] = [_dependency(each) for each in options["after"]]
    if "array" in options:
        first, last, step, at_once = options["array"]
        body["array"] = {"first": first, "last": last, "step": step, "at_once": at_once}
    _check_utf8({"key": key})
    if not in_a_header(key):
        raise UsageError(
            f"key: expected printable ASCII, as headers hold it, not {key[:_SHOWN_MOST]!a}"
        )
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    dumped, hint = _dumped(body), _largest(environment)
    return Ask("POST", f"{V1}/jobs", headers=headers, body=dumped, if_too_large=hint)


def imagined(command: Sequence[str], options: JobOptions) -> Ask:
    """Return the request for when a job would start and end; nothing is submitted.

    Raises:
        UsageError: a number is none, infinite, or more than any job can have.
    """
    ask = submission(command, options, "")
    headers = {"Content-Type": "application/json"}
    return replace(ask, path=f"{V1}/forecast", headers=headers, is_slow=True)


def value_of(ask: Ask, status: int, content: bytes) -> Answer:
    """Return the document of the answer to a request.

    Raises:
        ShunterError: it is one of the errors of the daemon, as that named it.
        UnreachableError: whoever answered is no daemon of ours.
    """
    if status >= 400:
        error = error_of(status, content)
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and ask.if_too_large:
            raise type(error)(f"{error}, and this has {len(ask.body or b''):,}{ask.if_too_large}")
        is_unknown = status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
        if is_unknown and ask.if_unknown and not isinstance(error, UnreachableError):
            raise UnreachableError(ask.if_unknown)
        raise error
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise UnreachableError("what answers there is no daemon of Shunter's") from error
    if not isinstance(found, dict):
        raise UnreachableError("what answers there is no daemon of Shunter's")
    return found


def error_of(status: int, content: bytes) -> ShunterError:
    """Return the error that an answer stands for."""
    try:
        return problem_error(orjson.loads(content))
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return UnreachableError(f"what answers there is no daemon of Shunter's (status {status})")


def problem_error(problem: Answer) -> ShunterError:
    """Return the error that a problem document stands for."""
    lines = [str(problem["detail"]), *map(str, problem.get("faults", ()))]
    return _ERRORS.get(problem["code"], ShunterError)("\n".join(lines))


@dataclass(frozen=True)
class Followed:
    """One event of the log: its number, its kind, and its fields by name."""

    seq: int
    kind: str
    fields: dict[str, object]


@dataclass
class Lines:
    """Puts the events of a stream together; comments and hints are passed over.

    A line ends at a line feed alone: the name of a job may hold what Unicode counts as other ends.
    """

    _begun: bytes = b""
    _seq: int = 0
    _kind: str = ""
    _data: list[str] = field(default_factory=list)

    def take(self, piece: bytes) -> Iterator[Followed]:
        """Yield the events that a piece of the stream completes."""
        *lines, self._begun = (self._begun + piece).split(b"\n")
        for line in lines:
            yield from self._take(line.removesuffix(b"\r").decode("utf-8", "replace"))

    def _take(self, line: str) -> Iterator[Followed]:
        if not line:
            if self._data:
                yield Followed(self._seq, self._kind, orjson.loads("\n".join(self._data)))
            self._data.clear()
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._seq = int(value)
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)


def in_a_header(text: str) -> bool:
    """Say whether a header of HTTP can hold a text."""
    return text.isascii() and text.isprintable()


def token_from(environ: Mapping[str, str]) -> str | None:
    """Return the token that the environment names; None: none.

    Raises:
        UsageError: SHUNTER_TOKEN_FILE cannot be read or holds none.
    """
    if token := environ.get("SHUNTER_TOKEN"):
        return token
    path = environ.get("SHUNTER_TOKEN_FILE")
    if not path:
        return None
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"SHUNTER_TOKEN_FILE: {path}: {os.strerror(error.errno or 0)}") from error
    words = [line.split("#", 1)[0].split() for line in lines]
    token = next((found[0] for found in words if found), None)
    if token is None:
        raise UsageError(f"SHUNTER_TOKEN_FILE: {path} holds no token")
    return token


def _dumped(body: Mapping[str, object]) -> bytes:
    """Return a body as JSON, which leaves out what is infinite.

    Raises:
        UsageError: a number in it is such a one, or a text holds bytes that are no UTF-8; the
            message names its field.
    """
    _check_utf8(body)
    for name, value in body.items():
        for each in _numbers(value):
            if isinstance(each, float) and not isfinite(each):
                raise UsageError(f"{name}: expected a finite number, not {each}")
            if isinstance(each, int) and abs(each) > WHOLE_MOST:
                raise UsageError(f"{name}: expected at most {WHOLE_MOST} either way, not {each}")
    return orjson.dumps(body)


def _numbers(value: object) -> Iterator[int | float]:
    """Yield all numbers in a value of a body."""
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _numbers(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each)


def _check_utf8(said: Mapping[str, object]) -> None:
    """Raise a UsageError that says where a text holds bytes that are no UTF-8."""
    for name, value in said.items():
        if name == "environment" and isinstance(value, Mapping):
            for variable, text in value.items():
                hint = ": unset it, or submit with --export none"
                _check_one(f"environment variable {variable}", f"{variable}{text}", hint)
        elif isinstance(value, list | tuple):
            for number, each in enumerate(value):
                _check_utf8({"the id" if name == "jobs" else f"{name}.{number}": each})
        elif isinstance(value, Mapping):
            _check_utf8({f"{name}.{each}": inner for each, inner in value.items()})
        elif isinstance(value, str):
            _check_one(name, value, f": {value[:_SHOWN_MOST]!a}")


def _check_one(where: str, text: str, hint: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = where.encode("ascii", "backslashreplace").decode()
        raise UsageError(f"{shown} holds bytes that are no UTF-8 text{hint}") from error


def _largest(environment: Mapping[str, str]) -> str:
    """Return which variables make a submission large, and what to do."""
    if not environment:
        return ""
    sizes = sorted(((len(text.encode()), name) for name, text in environment.items()), reverse=True)
    shown = ", ".join(f"{name} ({size:,} bytes)" for size, name in sizes[:_LARGEST_MOST])
    return (
        f"; the largest variables are {shown}: unset what the job does not need, or submit with "
        "--export none and name those it needs with --env"
    )


def _path(path: str, parts: Sequence[str]) -> str:
    for part in parts:
        _check_utf8({"the id": part})
        if not part:
            raise UsageError("expected an id or a name, and it is empty")
    return V1 + path.format(*(quote(part, safe="") for part in parts))


def _with_offset(text: str) -> str:
    """Return a date with the offset of the time zone here; what is none, as it is."""
    if text.strip().isdigit():  # the number of an event
        return text
    try:
        when = datetime.fromisoformat(text.strip())
        return text if when.tzinfo else when.astimezone().isoformat()
    except (ValueError, OverflowError):
        return text


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _dependency(each: str | tuple[str, str]) -> dict[str, str]:
    job_id, when = (each, "ok") if isinstance(each, str) else each
    return {"job_id": job_id, "when": when}


# Functions that bash exports (Lmod's `module` is one) are variables of a name of their own.

VARIABLE = r"^([A-Za-z_][A-Za-z0-9_]*|BASH_FUNC_[^=\s\x00-\x1f]+(%%|\(\)))$"
"""The names that a submission may say."""

_NAME = re.compile(VARIABLE)
_OF_THE_SHELL = frozenset(("_", "OLDPWD", "PWD", "SHLVL", "TERM", "XDG_RUNTIME_DIR"))
"""They mean nothing elsewhere than in the shell they are of."""

_OF_ANOTHER_JOB = re.compile(
    r"(SHUNTER|SLURM|SLURMD|SBATCH|SRUN|PMI|PMIX|HIP|ROCR)_.*"
    r"|(CUDA|HIP|ROCR|NVIDIA|ZE|TPU)_(VISIBLE_DEVICES|VISIBLE_CHIPS|AFFINITY_MASK)"
    r"|GPU_DEVICE_ORDINAL"
)
"""They say which ranks and devices somebody else was given: a job is given its own."""


def is_name(name: str) -> bool:
    """Say whether a submission may name a variable so."""
    return _NAME.fullmatch(name) is not None


def is_passed_on(name: str) -> bool:
    """Say whether a job is given a variable that nobody named."""
    return (
        _NAME.match(name) is not None
        and name not in _OF_THE_SHELL
        and _OF_ANOTHER_JOB.fullmatch(name) is None
    )
