"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .approver import (
    KEPT as KEPT,
    NOT_ADMITTED as NOT_ADMITTED,
    Approval as Approval,
    Refused as Refused,
    accepts as accepts,
    approve as approve,
    gang_reactions as gang_reactions,
    is_as_near as is_as_near,
    looked_at as looked_at,
    refused_shape as refused_shape,
    unfit_for_sizes as unfit_for_sizes,
)
from .draft import (
    Draft as Draft,
    Needs as Needs,
    may_move_evicted as may_move_evicted,
    pools_without_gpus as pools_without_gpus,
    untangled as untangled,
)
from .extensions import (
    HELD_BACK as HELD_BACK,
    CanMakeRoom as CanMakeRoom,
    CanPropose as CanPropose,
    Extended as Extended,
    RoomMaker as RoomMaker,
    RoomMemory as RoomMemory,
)
from .fault_barrier import (
    OBSERVER as OBSERVER,
    TARGET as TARGET,
    TEXT_MOST as TEXT_MOST,
    Barrier as Barrier,
    NoMemory as NoMemory,
    OnFault as OnFault,
    is_our_own as is_our_own,
    told_of as told_of,
)
from .placement import (
    PACK_ABOVE as PACK_ABOVE,
    PLACEMENTS as PLACEMENTS,
    SKEW_THRESHOLD as SKEW_THRESHOLD,
    SPREAD_BELOW as SPREAD_BELOW,
    Classing as Classing,
    Consolidated as Consolidated,
    FirstFit as FirstFit,
    Messages as Messages,
    Mode as Mode,
    Packing as Packing,
    Placement as Placement,
    Skew as Skew,
    Spread as Spread,
    Topology as Topology,
    at_load as at_load,
    fewest_servers as fewest_servers,
    find as find,
    groups_within as groups_within,
    is_within as is_within,
    note_load as note_load,
    pick_gpus as pick_gpus,
    place as place,
)
from .planner import Planner as Planner, RoundRules as RoundRules
from .proposals import (
    AllocationHistory as AllocationHistory,
    Decentralised as Decentralised,
    ProposalMemory as ProposalMemory,
    divided as divided,
    proposal_observers as proposal_observers,
    without_proposed as without_proposed,
)
from .trials import (
    TrialRules as TrialRules,
    Verdict as Verdict,
    is_known_loss as is_known_loss,
    is_known_to_pay as is_known_to_pay,
    model_of as model_of,
    orders_of as orders_of,
    proposed as proposed,
    running as running,
    trial_facts as trial_facts,
    verdicts as verdicts,
)
