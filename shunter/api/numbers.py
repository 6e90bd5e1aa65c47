"""Whole numbers in headers and paths, which come from anybody."""

DIGITS_MOST = 18
"""More than any count has; the interpreter refuses to read thousands of them."""


def whole_number(text: str, most: int | None = None) -> int | None:
    """Return the number that digits write; None: it is none, or above `most`."""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MOST):
        return None
    number = int(text)
    return None if most is not None and number > most else number
