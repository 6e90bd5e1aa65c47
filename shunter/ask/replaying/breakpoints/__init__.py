"""Going through a log event by event: at its own pace, and up to what somebody looks for."""

__all__: list[str] = []
