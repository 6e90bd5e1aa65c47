"""The text of a file a config names; whoever parses it needs no file then."""

from shunter.errors import ConfigError
from shunter.workloads.loading import read_file


def read_text(path: str) -> str:
    """Return the text of a file, without a byte order mark.

    Raises:
        ConfigError: there is no such file, or it is no text.
    """
    try:
        content = read_file(path)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}; check the path") from error
    except (OSError, ValueError) as error:  # a ValueError: the path holds a zero byte
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: cannot be read: {why}; check the path") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 text (byte {error.start})") from error
