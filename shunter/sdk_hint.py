"""What to install where `from shunter import train` finds no SDK: it is a distribution of its own.

`shunter/__init__.py` takes `__getattr__` from here, which Python asks for names that the package
does not have (PEP 562), submodules that were not imported yet among them.
"""

from importlib.util import find_spec


def __getattr__(name: str) -> object:
    """Say how the SDK is installed if it is wanted and not there.

    Raises:
        ImportError: the SDK is not installed beside the scheduler.
        AttributeError: always else, so that Python looks for a submodule of the name.
    """
    if name == "train" and find_spec("shunter.train") is None:
        raise ImportError(
            "the training SDK, shunter.train, is not installed in this environment: it is a "
            "distribution of its own: pip install shunter-train (./train in a checkout)"
        )
    raise AttributeError(f"module 'shunter' has no attribute {name!r}")
