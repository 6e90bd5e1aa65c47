"""The published policies, a file or folder each or with their kin: where a new one goes.

Each is found by name through an entry point in `pyproject.toml`, in the group `shunter.policies`;
HACKING.md says what it must hold. Those that only rank jobs (`fifo`, `las`, …)
are an index for the engine in `shunter.core.ranking`; others plan for themselves (`gavel`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
