"""Which backends the contract suite runs over: a new one joins this list."""

import pytest

from tests.contracts.backends import BackendKind
from tests.contracts.simulated_backends import SIMULATED_KINDS

BACKEND_KINDS: tuple[BackendKind, ...] = (*SIMULATED_KINDS,)


@pytest.fixture(params=BACKEND_KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> BackendKind:
    """A backend of each kind, with each of its settings."""
    found: BackendKind = request.param
    return found
