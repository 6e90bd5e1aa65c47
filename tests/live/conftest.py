"""What holds for all live tests."""

from collections.abc import Iterator

import pytest

from tests.policy_forks import PolicyForks, forked_policies


@pytest.fixture(scope="session")
def policy_forks() -> Iterator[PolicyForks]:
    """What forks the processes of policies, for all tests of a worker."""
    forks = PolicyForks()
    yield forks
    forks.close()


@pytest.fixture(autouse=True)
def _forked_policies(policy_forks: PolicyForks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of policies; a scheduler in a process of its own starts them itself."""
    forked_policies(policy_forks, monkeypatch)
