"""The engine of all index policies: ranking, selection, placing.

A folder of its own above `planning`: it sizes what it places, and `sizing` needs the drafts of
`planning`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
