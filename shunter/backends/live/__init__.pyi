"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .backend import (
    SupervisedBackend as SupervisedBackend,
    ask_wirings as ask_wirings,
    set_sockets as set_sockets,
)
from .checkpoint_lists import (
    ENTRIES_OF_ALL_MAX as ENTRIES_OF_ALL_MAX,
    FileLists as FileLists,
    ListedEntry as ListedEntry,
    StaysError as StaysError,
    TooManyEntriesError as TooManyEntriesError,
    listed_entry as listed_entry,
    path_of as path_of,
    read_answer as read_answer,
)
from .checkpoint_transfer import CopyPlan as CopyPlan
from .gang import (
    NEVER as NEVER,
    Gang as Gang,
    Part as Part,
    PartTurns as PartTurns,
    deliver as deliver,
    merged as merged,
    told_of as told_of,
)
from .gpus import (
    EXPLANATIONS as EXPLANATIONS,
    GpuFault as GpuFault,
    GpuUse as GpuUse,
    fault_of_code as fault_of_code,
    use_told as use_told,
    why_unseen as why_unseen,
)
from .inbox import Inbox as Inbox, Stamped as Stamped
from .local import (
    LocalBackend as LocalBackend,
    LocalTransport as LocalTransport,
    MemoryControl as MemoryControl,
    memory_control as memory_control,
)
from .node_agent import (
    RETRY_S_MAX as RETRY_S_MAX,
    ClockOffset as ClockOffset,
    NodeAgent as NodeAgent,
    OtherProtocolError as OtherProtocolError,
    Reading as Reading,
    RpcChannel as RpcChannel,
    decode_answer as decode_answer,
    decode_greeting as decode_greeting,
    decode_line as decode_line,
    decode_news as decode_news,
    decode_number as decode_number,
    encode_question as encode_question,
)
from .orders import (
    NOTICES_MOST as NOTICES_MOST,
    ShareNotices as ShareNotices,
    Where as Where,
    contract_of as contract_of,
    cpus_for as cpus_for,
    cpus_near as cpus_near,
    environment_path as environment_path,
    filled as filled,
    given_to as given_to,
    orders_for as orders_for,
    put_privately as put_privately,
    shares_kept as shares_kept,
    shares_of as shares_of,
    store_all as store_all,
)
from .samples import (
    Downsampler as Downsampler,
    LostGpus as LostGpus,
    SampleCollector as SampleCollector,
    profile_of as profile_of,
)
from .settings import (
    Limits as Limits,
    LocalNode as LocalNode,
    LocalSettings as LocalSettings,
    Owner as Owner,
    Socket as Socket,
    SshAccess as SshAccess,
    SshHost as SshHost,
    SshSettings as SshSettings,
    TurnSettings as TurnSettings,
)
from .ssh import (
    WINDOW_BYTES as WINDOW_BYTES,
    HostInventory as HostInventory,
    SshBackend as SshBackend,
    SshTransport as SshTransport,
    host_inventories as host_inventories,
    ran_on as ran_on,
)
from .transport import (
    ANSWER_BYTES_MOST as ANSWER_BYTES_MOST,
    NO_DEVICE as NO_DEVICE,
    NODE as NODE,
    NOT_PACKED as NOT_PACKED,
    AgentProcess as AgentProcess,
    Link as Link,
    Server as Server,
    Transport as Transport,
    UnreachedError as UnreachedError,
    begin_here as begin_here,
    digest as digest,
    install_shared as install_shared,
    installer as installer,
    run_verb as run_verb,
    zip_application as zip_application,
)
from .watch import Standing as Standing, Told as Told, Watch as Watch
