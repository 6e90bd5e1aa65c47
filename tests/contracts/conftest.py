"""Which backends the contract suite runs over: a new one joins this list."""

from functools import partial

import pytest

from tests.contracts.backends import BackendKind
from tests.contracts.local_backends import LOCAL_KINDS
from tests.contracts.simulated_backends import SIMULATED_KINDS
from tests.contracts.simulated_nodes import NODES_KINDS, NodesKind
from tests.contracts.slurm_backends import SLURM_KINDS
from tests.contracts.ssh_backends import SSH_KINDS
from tests.doubles.virtual_clock import VirtualClock

LIVE_KINDS: tuple[BackendKind, ...] = (*LOCAL_KINDS, *SSH_KINDS)
REAL_MARKS = (pytest.mark.live, pytest.mark.rotating("kind"))
"""A run plays each test on one real backend: on Slurm it takes ten seconds, mostly of waiting."""
GROUPS = {"slurm-pilot": "slurm", "slurm-per-job": "slurm-jobs"}
"""Those of tests/live/slurm: one process waits for Slurm while others work."""
SUPERVISED_KINDS = (
    *(pytest.param(kind, id=kind.name) for kind in NODES_KINDS),
    *(pytest.param(kind, id=kind.name, marks=REAL_MARKS) for kind in LIVE_KINDS),
    *(
        pytest.param(
            kind,
            id=kind.name,
            marks=(*REAL_MARKS, pytest.mark.slurm, pytest.mark.xdist_group(GROUPS[kind.name])),
        )
        for kind in SLURM_KINDS
    ),
)
"""Those whose attempts have supervisors, under agents; the last one's is Slurm itself."""
BACKEND_KINDS = (
    *(pytest.param(kind, id=kind.name) for kind in SIMULATED_KINDS),
    *SUPERVISED_KINDS,
)


@pytest.fixture(params=BACKEND_KINDS)
def kind(request: pytest.FixtureRequest) -> BackendKind:
    """A backend of each kind, with each of its settings."""
    found: BackendKind = request.param
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test over simulated nodes in virtual time, on a loop of its own."""
    if not isinstance(pyfuncitem.funcargs.get("kind"), NodesKind):
        return None
    function = getattr(pyfuncitem.module, pyfuncitem.originalname)
    names = pyfuncitem._fixtureinfo.argnames  # pytest has no public name
    VirtualClock().run(partial(function, **{name: pyfuncitem.funcargs[name] for name in names}))
    return True
