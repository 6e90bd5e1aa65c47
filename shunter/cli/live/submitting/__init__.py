"""What stands behind `shunter submit`: its options, scripts, sizes and times."""

__all__: list[str] = []
