"""Words that core writes into facts and readers of a log look for: a chapter that needs no other.

The rules are those of changes (`Because.rule`) that say more than who ranked before whom.
"""

from typing import Final

MAKE_ROOM: Final = "make_room"
"""The rule of a move that makes room; its beneficiary is the gang."""

ROOM_MADE: Final = "room_made"
"""The rule of the start of a gang for which others were moved."""

MAKES_ROOM: Final = "makes_room"
"""The rule by which a job leaves whose very place is needed; elsewhere there may be one for it."""

GROWN: Final = "grown"
"""The rule by which a job was given more CPUs or memory beside its GPUs."""

SHRUNK: Final = "shrunk"
"""The rule by which a job was left less of them."""

EVEN_WHEN_EMPTY: Final = "even when empty: "
"""With this begins the detail of a refusal that is not for too few GPUs; the reason follows."""
