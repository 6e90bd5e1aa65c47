"""A log as tables in Parquet files, for pandas and polars."""

__all__: list[str] = []
