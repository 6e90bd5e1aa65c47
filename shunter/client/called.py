"""Runs a function that was submitted; copied into the folder of the call: a job needs no Shunter.

    FOLDER/call.pickle      the module search path; function, arguments, keywords
    FOLDER/result.pickle    of rank 0: whether it returned, traceback; value or exception

An exception is an end with exit code 1. `SystemExit` passes: a function may leave as a script may,
with 75 after a checkpoint too, and is then called again in the next attempt.
"""

import os
import pickle
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path

CALL, RESULT = "call.pickle", "result.pickle"


def main(folder: Path) -> int:
    """Call what lies in a folder, and leave there what came of it."""
    is_first = os.environ.get("RANK", "0") == "0"
    if is_first:
        (folder / RESULT).unlink(missing_ok=True)
    with (folder / CALL).open("rb") as file:
        paths = pickle.load(file)  # noqa: S301  nobody else may write there
        sys.path += [path for path in paths if path not in sys.path]
        if find_spec("cloudpickle") is None:  # what the function returns is sent back by it
            sys.stderr.write(
                f"the Python of this job, {sys.executable}, lacks cloudpickle, by which functions "
                "are sent: pip install cloudpickle there, or name a Python that has it as `python` "
                "of the submission\n"
            )
            return 1
        try:
            function, arguments, keywords = pickle.load(file)  # noqa: S301  as above
        except ModuleNotFoundError as error:
            sys.stderr.write(
                f"the Python of this job, {sys.executable}, lacks {error.name}, which the call "
                "needs: "
                "install it there, or name a Python that has it as `python` of the submission\n"
            )
            raise
    try:
        is_well, found, told = True, function(*arguments, **keywords), ""
    except Exception as error:  # noqa: BLE001  it is somebody else's code
        is_well, found, told = False, error, traceback.format_exc()
    pieces = _pickled(found)
    if isinstance(pieces, str):
        what = "returned" if is_well else "raised"
        told += f"what the function {what} cannot be sent back: {pieces}\n"
        is_well, pieces = False, pickle.dumps(None)
    sys.stderr.write(told)
    if is_first:
        unfinished = folder / f".{RESULT}.{os.getpid()}"
        unfinished.write_bytes(pickle.dumps((is_well, told)) + pieces)
        unfinished.replace(folder / RESULT)
    return 0 if is_well else 1


def _pickled(found: object) -> "bytes | str":
    """Return an object as bytes that can be read again, else why there are none."""
    try:
        import cloudpickle

        pieces = cloudpickle.dumps(found)
        pickle.loads(pieces)  # noqa: S301  our own; an exception may be written and not be read
    except Exception as error:  # noqa: BLE001  any class may say anything when it is pickled
        return f"{type(error).__name__}: {error}"
    return bytes(pieces)


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent))
