"""What holds for all live tests."""

from collections.abc import Iterator

import pytest

import shunter.daemon.policy as product
from tests.policy_forks import AS_THE_PRODUCT_DOES, PolicyForks


@pytest.fixture(scope="session", autouse=True)
def _forked_policies() -> Iterator[None]:
    """Fork the processes of policies; a scheduler started by its command starts them itself."""
    forks = PolicyForks()
    forks.install()
    yield
    product.start_process = AS_THE_PRODUCT_DOES
    forks.close()
