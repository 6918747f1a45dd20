"""The status of the node, which `/status.json` serves and the logs are made from [RPC94]; None for what is unknown."""

from enum import StrEnum

import msgspec


class State(StrEnum):
    """What the node does; the value is the message of the log line [LOG7]."""

    STARTING = "starting"
    EL_SYNC = "EL sync"
    SYNCING = "syncing"
    SYNCED = "synced"
    FOLLOWING = "following"
    WAITING = "waiting"


class BlockStatus(msgspec.Struct, frozen=True):
    """A block of either chain; `hash` in hex, `timestamp` in Unix seconds."""

    number: int
    hash: str
    timestamp: int
    age_s: float


class ForkTime(msgspec.Struct, frozen=True):
    """The next fork that is scheduled; `timestamp` in Unix seconds."""

    name: str
    timestamp: int
    in_s: int


class ChainStatus(msgspec.Struct, frozen=True):
    """The chain; `next_fork` is None when none is scheduled."""

    network: str | None
    l1_chain_id: int
    l2_chain_id: int
    block_time_s: int
    fork: str
    next_fork: ForkTime | None


class HeadsStatus(msgspec.Struct, frozen=True):
    """The L2 heads."""

    unsafe: BlockStatus | None
    safe: BlockStatus | None
    finalized: BlockStatus | None


class ProofStatus(msgspec.Struct, frozen=True):
    """The newest proof of L1 by its beacon chain; the ages are those of the proven head and finalized block.

    `participation` is the part of the sync committee that signed the head, `linked` whether the L1 blocks that
    derivation reads are ancestors of a proven one, `finality_late` whether no newer finalized block has been proven for
    four epochs."""

    head_slot: int
    age_s: float
    finalized_slot: int
    finalized_age_s: float
    period: int
    participation: float
    linked: bool
    finality_late: bool = False


class L1Status(msgspec.Struct, frozen=True):
    """L1: `current` is the block that derivation reads, or the follow source's; `proof` None without a checkpoint.

    `lag_blocks` counts the blocks that derivation could read already, `lag_s` is the time from `current` to `head`."""

    current: BlockStatus | None
    head: BlockStatus | None
    safe: BlockStatus | None
    finalized: BlockStatus | None
    lag_blocks: int | None
    lag_s: int | None
    proof: ProofStatus | None = None


class DerivationProgress(msgspec.Struct, frozen=True):
    """How fast the safe head follows L1 [LOG9, LOG17]: `target_block` is the L2 block of the L1 head's time.

    `eta_s` and `limited_by` are there while the node is syncing; `waits_s` counts the seconds by neighbour since
    derivation began."""

    target_block: int | None
    blocks_per_s: float | None
    eta_s: int | None
    limited_by: str | None
    waits_s: dict[str, int] | None


class SequencingWindow(msgspec.Struct, frozen=True):
    """L1 blocks from the safe head's origin to the one being read; with none left the next block needs no batcher."""

    size_blocks: int
    used_blocks: int
    left_blocks: int


class SequencerStatus(msgspec.Struct, frozen=True):
    """Whether the node is a sequencer, and whether it sequences."""

    enabled: bool
    active: bool


class ProcessStatus(msgspec.Struct, frozen=True):
    """A process as the supervisor lists it, up to 2 s ago; `status_age_s` is that of its last status.

    `cpu_share` is the part of a core that it used in the last seconds, `queue` the number of items that wait in it."""

    name: str
    pid: int
    incarnation: int
    restarts: int
    uptime_s: float
    up: bool | None
    heartbeat_age_s: float | None
    status_age_s: float | None
    cpu_s: float | None
    memory_bytes: int | None
    cpu_share: float | None = None
    queue: int | None = None


class Peers(msgspec.Struct, frozen=True):
    """Connected peers, and those in the mesh of the current block topic."""

    connected: int
    mesh: int


class EndpointState(StrEnum):
    OK = "ok"
    THROTTLED = "throttled"
    """A request was refused for the number of requests before it, less than a minute ago."""
    FAILING = "failing"
    """The last request failed, or the endpoint is set aside."""
    UNUSED = "unused"


class EndpointStatus(msgspec.Struct, frozen=True):
    """An endpoint that a process calls, since that process began; `in_use` when it is called first.

    `requests` counts each call of a batch, `throttled` those refused for their number; `latency_ms` is the mean of the
    latest answers. `error` is the last failure; `verdict` says why it is set aside, if it is."""

    process: str
    kind: str
    name: str
    state: EndpointState
    in_use: bool
    requests: int
    errors: int
    throttled: int
    latency_ms: float | None
    error: str | None
    error_age_s: float | None
    verdict: str | None = None


class DropStatus(msgspec.Struct, frozen=True):
    """What derivation dropped for one reason with one effect, since its process began and in the last hour.

    `rule` is the id in docs/rules, `link` the section of the specs about it, `text` that of the drop at `l1_block`."""

    rule: str
    reason: str
    effect: str
    count: int
    count_1h: int
    text: str
    l1_block: int | None
    link: str | None = None


class ProblemStatus(msgspec.Struct, frozen=True):
    """What a process reports, `since` Unix seconds; `code` (docs/codes.md), what it `means`, what to `do`."""

    process: str
    code: str | None
    text: str
    since: int
    age_s: float
    means: str | None = None
    do: str | None = None


class StatusWarning(msgspec.Struct, frozen=True):
    """What an operator should mend although the node is ready.

    `code` is that of docs/codes.md with what it `means` and what to `do`. `due` is when it matters, in Unix seconds."""

    code: str
    text: str
    means: str
    do: str
    due: int | None = None


class NodeStatus(msgspec.Struct, frozen=True):
    """The status at `time`, in Unix seconds, which `sentence` says in one line.

    `reasons` are those of `/readyz`. `drops_1h` is what derivation dropped in the last hour, `drops` the same by
    reason. `l1_req_per_block` are the calls to L1 for each L1 block that derivation read in the last minutes."""

    version: str
    time: float
    uptime_s: float | None
    chain: ChainStatus
    state: State
    state_age_s: float
    sentence: str
    ready: bool
    reasons: list[str]
    heads: HeadsStatus
    l1: L1Status
    progress: DerivationProgress
    sequencing_window: SequencingWindow | None
    sequencer: SequencerStatus | None
    peers: Peers | None
    drops_1h: int | None
    problems: list[ProblemStatus]
    processes: list[ProcessStatus] | None
    endpoints: list[EndpointStatus] | None = None
    drops: list[DropStatus] | None = None
    l1_req_per_block: float | None = None
    compute_tasks: int | None = None
    warnings: list[StatusWarning] = []
