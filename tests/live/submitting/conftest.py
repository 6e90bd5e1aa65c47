from tests.live.api.conftest import served, shared

__all__ = ["served", "shared"]
