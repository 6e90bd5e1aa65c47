"""The HTTP API of a live cluster, over one running site.

Read `routes` (the table) and `routing` (what a route becomes), then the handlers: `jobs`,
`commands`, `output`, `cluster`. Their answers are made in `job_rows`, `cluster_state` and
`ask/job_history`, and described by `answer_models`. `serving` is the daemon as a process.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
