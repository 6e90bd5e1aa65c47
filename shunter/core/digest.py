"""One number for everything that is true: two states with the same digest are the same."""

from hashlib import blake2b

from shunter.core.state import State
from shunter.events.codec import encode_record

DIGEST_BYTES = 32


def state_digest(state: State) -> str:
    """Return the digest that a simulation prints, and that a replay must find again."""
    return blake2b(encode_record(state), digest_size=DIGEST_BYTES).hexdigest()
