from tests.live.api.conftest import served

__all__ = ["served"]
