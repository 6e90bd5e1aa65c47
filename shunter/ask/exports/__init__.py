"""A log as files of other tools: what was where when, told as it changes, and who writes it.

events ─▶ fold ─▶ occupancy: attempts on GPUs ─▶ perfetto
              └─▶ attempts, allocations, decisions ─▶ parquet
"""

__all__: list[str] = []
