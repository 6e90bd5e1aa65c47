"""Other simulators, faults included, as policies of Shunter.

Shunter finds them by the entry points in this distribution's metadata, and never imports them.
"""

__all__: list[str] = []
