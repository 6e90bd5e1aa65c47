"""Points in time as traces write them: ISO 8601, in UTC where no zone is named."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH: Final = _EPOCH.replace(tzinfo=None)


def instant_us(text: str) -> int:
    """Return microseconds since 1970 (UTC); ValueError before, or for no instant."""
    moment = datetime.fromisoformat(text)
    since = moment - (_NAIVE_EPOCH if moment.tzinfo is None else _EPOCH)
    if since.days < 0:
        raise ValueError(text)
    return since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds


def iso_text(us: int) -> str:
    """Return the ISO 8601 text of an instant in microseconds since 1970, in UTC."""
    return (_EPOCH + timedelta(microseconds=us)).isoformat()
