"""The metrics of op-node 1.16 (`op-node doc metrics`), by its names, types and labels, and our own [MET2 to MET26]."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any, NamedTuple

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationWaits, DropEffect

PREFIX = "op_node_default_"

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class MetricType(Enum):
    """EVENT is the pair `<name>_total` and `last_<name>_unix` [MET3]; the others are Prometheus's."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    EVENT = "event"


class ExposedMetric(NamedTuple):
    """A metric as Prometheus sees it: the full name, and `counter`, `gauge` or `histogram`."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


@dataclass(frozen=True)
class Metric:
    """One metric, of the roles `processes`, or of every process and then with the label `process`.

    It is exposed from the start with `initial`, or with labels as zero for each tuple of label values in `series`.
    `prefix` is empty for names that Prometheus itself prescribes [MET2]."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    series: tuple[tuple[str, ...], ...] = ()
    buckets: tuple[float, ...] = SECONDS
    prefix: str = PREFIX
    initial: float = 0.0

    def exposed(self) -> Iterator[ExposedMetric]:
        """Yield the one metric, or the two of an event, that Prometheus sees."""
        if self.type is MetricType.EVENT:
            yield ExposedMetric(f"{self.prefix}{self.name}_total", "counter", self.labels, self.help)
            when = f"{self.help}: Unix time of the last"
            yield ExposedMetric(f"{self.prefix}last_{self.name}_unix", "gauge", self.labels, when)
        else:
            yield ExposedMetric(self.prefix + self.name, self.type.value, self.labels, self.help)


COUNTER, GAUGE, HISTOGRAM, EVENT = MetricType.COUNTER, MetricType.GAUGE, MetricType.HISTOGRAM, MetricType.EVENT

REORG_DEPTHS = (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 20.5, 50.5, 100.5)
SCORES = (-100.0, -40.0, -20.0, -10.0, -5.0, -2.0, -1.0, -0.5, -0.05, 0.0, 0.05, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
SIGNED_SECONDS = (-10.0, -5.0, -2.5, -1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_SUPERVISOR, _L1, _DERIVATION, _ENGINE = ("supervisor",), ("l1",), ("derivation",), ("engine",)
_P2P, _RPC, _SOURCES, _CLIENTS = ("p2p",), ("rpc",), ("l1", "blobs"), ("l1", "blobs", "engine")
_HEADS, _INTEROP = ("l1", "derivation", "engine"), ("interop",)
_CALL, _REF = ("rpc", "method"), ("layer", "type")
_REQUEST = ("p2p_role", "p2p_method", "result_code")
_FLAGS = (("true",), ("false",))
_GOSSIP = (
    "PUBLISH_MESSAGE REJECT_MESSAGE DUPLICATE_MESSAGE DELIVER_MESSAGE ADD_PEER REMOVE_PEER RECV_RPC SEND_RPC DROP_RPC "
    "JOIN LEAVE GRAFT PRUNE"
)
_REQUESTS = tuple(product(("client", "server"), ("payload_by_number",), "012345"))

OP_NODE_METRICS: tuple[Metric, ...] = (
    Metric("info", GAUGE, "Version of the node", ("version",), _SUPERVISOR),
    Metric("up", GAUGE, "1 once every process has been ready", (), _SUPERVISOR),
    # JSON-RPC, Beacon API and DA server [MET6, MET7]
    Metric("rpc_client_requests_total", COUNTER, "Requests sent", _CALL, _CLIENTS),
    Metric("rpc_client_request_duration_seconds", HISTOGRAM, "Duration of requests sent", _CALL, _CLIENTS),
    Metric("rpc_client_responses_total", COUNTER, "Responses received", (*_CALL, "error"), _CLIENTS),
    Metric(
        "rpc_client_notifications_received_total",
        COUNTER,
        "Notifications of new L1 heads over WebSocket",
        _CALL,
        _L1,
        (("l1", "eth_subscription"),),
    ),
    Metric("rpc_client_params_size_total", COUNTER, "Bytes of requests that got a response", _CALL, _CLIENTS),
    Metric("rpc_client_results_size_total", COUNTER, "Bytes of responses received, uncompressed", _CALL, _CLIENTS),
    Metric("rpc_server_requests_total", COUNTER, "Requests served", _CALL, _RPC),
    Metric("rpc_server_request_duration_seconds", HISTOGRAM, "Duration of requests served", _CALL, _RPC),
    Metric("rpc_server_responses_total", COUNTER, "Responses sent", (*_CALL, "error"), _RPC),
    Metric("rpc_server_params_size_total", COUNTER, "Bytes of the parameters of requests served", _CALL, _RPC),
    Metric("rpc_server_results_size_total", COUNTER, "Bytes of responses sent, before compression", _CALL, _RPC),
    # L1 [MET8, MET14]
    Metric("l1_reorg_depth", HISTOGRAM, "Depth of L1 reorgs in blocks", (), _L1, buckets=REORG_DEPTHS),
    Metric("l1_source_cache_size", GAUGE, "Blocks and blobs cached", ("type",), _SOURCES),
    Metric(
        "l1_source_cache_get",
        COUNTER,
        "Requests for blocks and blobs, by whether the first of them was cached",
        ("type", "hit"),
        _SOURCES,
    ),
    Metric(
        "l1_source_cache_add",
        COUNTER,
        "Blocks and blobs added to the cache, by whether others were evicted",
        ("type", "evicted"),
        _SOURCES,
    ),
    # derivation [MET9, MET11]
    Metric("derivation_idle", GAUGE, "1 when derivation has no more data", (), _DERIVATION),
    Metric("pipeline_resets", EVENT, "Resets of the derivation pipeline", (), _ENGINE),
    Metric("derivation_errors", EVENT, "Errors of derivation that need a reset", (), _DERIVATION),
    Metric("derived_batches", EVENT, "Batches derived", ("type",), _DERIVATION, (("singular",), ("span",))),
    Metric("head_channel", EVENT, "Changes of the channel that derivation reads", (), _DERIVATION),
    Metric("channel_timeout", EVENT, "Channels that timed out", (), _DERIVATION),
    Metric("frame_added", EVENT, "Frames added to channels", (), _DERIVATION),
    Metric("channel_input_bytes", COUNTER, "Compressed bytes of the channels read", (), _DERIVATION),
    Metric(
        "l1_request_seconds",
        HISTOGRAM,
        "Time that derivation waited for L1, by what it requested",
        ("request",),
        _DERIVATION,
        (("block",), ("challenges",), ("blobs",)),
    ),
    # Alt-DA [ADA13]
    Metric("challenges_status", GAUGE, "Alt-DA challenges seen, by status", ("status",), _DERIVATION),
    Metric("challenges_head", GAUGE, "L1 block up to which Alt-DA challenges are known", ("type",), _DERIVATION),
    Metric("storage_errors", EVENT, "Failed requests to the DA server", (), ("blobs",)),
    # heads [MET22 to MET25]
    Metric("refs_number", GAUGE, "Number of a head", _REF, _HEADS),
    Metric("refs_time", GAUGE, "Timestamp of a head", _REF, _HEADS),
    Metric("refs_hash", GAUGE, "First 8 bytes of a head's hash", _REF, _HEADS),
    Metric("refs_latency", GAUGE, "Timestamp of a head minus the time when it was set", _REF, _HEADS),
    Metric("refs_seqnr", GAUGE, "Sequence number of an L2 head", ("type",), _ENGINE),
    # engine [MET10, MET12, MET13]
    Metric("unsafe_payloads", EVENT, "Unsafe payloads received", (), _ENGINE),
    Metric("unsafe_payloads_buffer_len", GAUGE, "Unsafe payloads waiting for their parent", (), _ENGINE),
    Metric("unsafe_payloads_buffer_mem_size", GAUGE, "Bytes of unsafe payloads waiting for their parent", (), _ENGINE),
    Metric("sequencer_active", GAUGE, "1 while sequencing", (), _ENGINE),
    Metric("sequencing_errors", EVENT, "Errors while sequencing", (), _ENGINE),
    Metric("publishing_errors", EVENT, "Sequenced blocks that were not published", (), _ENGINE),
    Metric("sequencer_inconsistent_l1_origin", EVENT, "L1 origins inconsistent with the L2 head", (), _ENGINE),
    Metric("sequencer_resets", EVENT, "Resets requested by the sequencer", (), _ENGINE),
    Metric(
        "sequencer_building_diff_seconds",
        HISTOGRAM,
        "Building time of a block minus the block time",
        (),
        _ENGINE,
        buckets=SIGNED_SECONDS,
    ),
    Metric("sequencer_building_diff_total", COUNTER, "Blocks built", (), _ENGINE),
    Metric("sequencer_sealing_seconds", HISTOGRAM, "Time to seal a block", (), _ENGINE),
    Metric("sequencer_sealing_total", COUNTER, "Blocks sealed", (), _ENGINE),
    Metric(
        "transactions_sequenced_total",
        COUNTER,
        "Transactions in sealed blocks",
        ("type",),
        _ENGINE,
        (("deposits",), ("txns",)),
    ),
    Metric("protocol_version_delta", GAUGE, "Comparison of a version with one that L1 signals", ("type",), _ENGINE),
    Metric(
        "protocol_versions",
        GAUGE,
        "1 for the current protocol versions",
        ("local", "engine", "recommended", "required"),
        _ENGINE,
    ),
    # p2p [MET15 to MET19]
    Metric("p2p_peer_count", GAUGE, "Connected peers", (), _P2P),
    Metric("p2p_stream_count", GAUGE, "Open streams", (), _P2P),
    Metric(
        "p2p_bandwidth_bytes_total",
        GAUGE,
        "Bytes sent to and received from peers",
        ("direction",),
        _P2P,
        (("in",), ("out",)),
    ),
    Metric("p2p_dials", COUNTER, "Outgoing dials", ("allow",), _P2P, _FLAGS),
    Metric("p2p_accepts", COUNTER, "Incoming connections", ("allow",), _P2P, _FLAGS),
    Metric("p2p_peer_unbans", COUNTER, "Peers unbanned", (), _P2P),
    Metric("peer_scores", HISTOGRAM, "Scores of connected peers, by component", ("type",), _P2P, buckets=SCORES),
    Metric(
        "p2p_gossip_events_total",
        COUNTER,
        "Gossip events, by pubsub trace event",
        ("type",),
        _P2P,
        tuple((name,) for name in _GOSSIP.split()),
    ),
    Metric("p2p_req_total", COUNTER, "Requests for blocks, sent and served", _REQUEST, _P2P, _REQUESTS),
    Metric("p2p_req_duration_seconds", HISTOGRAM, "Duration of requests for blocks", _REQUEST, _P2P),
    Metric("p2p_payload_by_number", GAUGE, "Number of the last block served or received", ("p2p_role",), _P2P),
    Metric("p2p_payloads_quarantine_total", GAUGE, "Blocks from peers that are not confirmed yet", (), _P2P),
)

# --- the metrics that op-node does not have: of processes, endpoints, how the node follows L1, what is dropped ---

UNKNOWN = math.nan
"""The value of a gauge as long as it is not known: neither a panel nor an alert takes it for zero."""

STATES = ("starting", "EL sync", "syncing", "synced", "following", "waiting")

WARNING_CODES = (Code.BUNDLE_UNCONFIRMED, Code.FORK_MISMATCH)
"""The codes of warnings in the status [RPC94]."""

_ENDPOINT = ("rpc", "endpoint")


def _of_process(name: str, type_: MetricType, help_: str) -> Metric:
    """Return a metric of each process that the supervisor counts, by the name that Prometheus prescribes."""
    return Metric(name, type_, help_, ("process",), _SUPERVISOR, prefix="")


def _interop(name: str, type_: MetricType, help_: str, *labels: str, **fields: Any) -> Metric:
    """Return a metric of the verification of messages between chains, by op-supernode's name [LB12]."""
    return Metric(f"supernode_interop_{name}", type_, help_, labels, _INTEROP, prefix="", **fields)


def _progress(name: str, help_: str) -> Metric:
    """Return a gauge of rpc that is not known before the node has made progress."""
    return Metric(name, GAUGE, help_, (), _RPC, initial=UNKNOWN)


OWN_METRICS: tuple[Metric, ...] = (
    # Processes, by the supervisor [MET5]
    _of_process("process_up", GAUGE, "1 while the process is ready"),
    _of_process("process_restarts_total", COUNTER, "Restarts of the process"),
    _of_process("process_incarnation", GAUGE, "Starts of the process"),
    _of_process("process_heartbeat_age_seconds", GAUGE, "Time since the last heartbeat"),
    _of_process(
        "process_resident_memory_bytes",
        GAUGE,
        "Resident memory; each process counts shared memory, so the sum is too high",
    ),
    _of_process(
        "process_proportional_memory_bytes",
        GAUGE,
        "Memory with a proportional share of shared memory (PSS); the sum is the memory of the node",
    ),
    Metric("chain", GAUGE, "1 for the chain of the node: its network, or else its chain id", ("chain",), _SUPERVISOR),
    Metric(
        "memory_limit_bytes",
        GAUGE,
        "Memory of the machine or of the control group, whichever has less left",
        (),
        _SUPERVISOR,
        initial=UNKNOWN,
    ),
    Metric("memory_available_bytes", GAUGE, "What is left of that memory", (), _SUPERVISOR, initial=UNKNOWN),
    _of_process("process_cpu_seconds_total", COUNTER, "User and system CPU time"),
    # Every process, by its runtime
    Metric("activity_errors_total", COUNTER, "Failed steps of periodic tasks", ("activity", "severity")),
    Metric("activity_problems", GAUGE, "Periodic tasks whose last step failed"),
    Metric("bus_events_total", COUNTER, "Messages and tasks of the bus that failed, by event", ("event",)),
    Metric("log_lines_dropped_total", COUNTER, "Log lines dropped because the output was blocked"),
    # How the node follows L1, by rpc [RPC94]
    Metric("ready", GAUGE, "1 while /readyz answers 200", (), _RPC),
    Metric("sync_state", GAUGE, "1 for the state of the node", ("state",), _RPC, tuple((name,) for name in STATES)),
    Metric("sync_head_age_seconds", GAUGE, "Age of the unsafe, safe or finalized head", ("head",), _RPC),
    _progress("sync_l1_lag_seconds", "Time from the L1 block that derivation reads to the L1 head"),
    _progress("sync_l1_lag_blocks", "L1 blocks that derivation could already read"),
    _progress("l1_proof_age_seconds", "Age of the newest L1 head that a sync committee has signed, with l1.checkpoint"),
    _progress("l1_proof_finalized_age_seconds", "Age of the newest L1 block that is proven to be finalized"),
    _progress("l1_proof_participation", "Part of the sync committee that has signed the proven L1 head, 0 to 1"),
    _progress("l1_proof_period", "Sync committee period of the proven finalized block"),
    _progress("l1_proof_linked", "1 while the L1 blocks that derivation reads are ancestors of a proven one"),
    _progress("l1_proof_finality_late", "1 while no newer finalized L1 block has been proven for four epochs"),
    _progress("sync_blocks_per_second", "L2 blocks that become safe per second"),
    _progress("sync_eta_seconds", "Time until the node has caught up, while it syncs"),
    Metric(
        "sync_limited_by",
        GAUGE,
        "1 for the process that derivation waits for most, while the node syncs",
        ("stage",),
        _RPC,
        tuple((name,) for name in DerivationWaits.__struct_fields__),
    ),
    _progress("l1_requests_per_block", "Calls to L1 for each L1 block that derivation read, over ten minutes"),
    _progress("sequencing_window_left_blocks", "L1 blocks left of the sequencing window"),
    _progress("sequencing_window_blocks", "Sequencing window in L1 blocks"),
    Metric(
        "batch_interval_seconds",
        GAUGE,
        "Longest time between L1 blocks with batches, of the last 32",
        (),
        _DERIVATION,
        initial=UNKNOWN,
    ),
    _progress("next_fork_seconds", "Time until the next fork that is scheduled"),
    Metric(
        "warnings",
        GAUGE,
        "What an operator should mend although the node is ready",
        ("code",),
        _RPC,
        tuple((code.text,) for code in WARNING_CODES),
    ),
    Metric("disk_free_bytes", GAUGE, "Space left where a database is", ("database",), _RPC),
    Metric("disk_size_bytes", GAUGE, "Size of the file system where a database is", ("database",), _RPC),
    # Endpoints, by l1 and blobs
    Metric("endpoint_calls_total", COUNTER, "Calls to the endpoint; each call of a batch counts", _ENDPOINT, _SOURCES),
    Metric("endpoint_throttled_total", COUNTER, "Requests refused because there were too many", _ENDPOINT, _SOURCES),
    Metric("endpoint_in_use", GAUGE, "1 for the endpoint that is called first", _ENDPOINT, _SOURCES),
    Metric("endpoint_usable", GAUGE, "0 while the endpoint is set aside", _ENDPOINT, _L1),
    Metric("endpoint_failures_total", COUNTER, "Failures of the endpoint, by fault", (*_ENDPOINT, "fault"), _SOURCES),
    Metric("l1_blocks_fetched_total", COUNTER, "L1 blocks fetched and verified", (), _L1),
    # What is dropped, refused or closed
    Metric(
        "rpc_server_connections_closed_total",
        COUNTER,
        "Connections closed because they were malformed, late, too many or too large",
        ("server", "reason"),
        _RPC,
    ),
    Metric("derivation_drops_total", COUNTER, "Data dropped by derivation, by rule", ("effect", "rule"), _DERIVATION),
    Metric(
        "derivation_drop_effects_total",
        COUNTER,
        "Data dropped by derivation, by effect only",
        ("effect",),
        _DERIVATION,
        tuple((effect.value,) for effect in DropEffect),
    ),
    Metric("follow_source_requests_total", COUNTER, "Polls of the follow source", ("result",), ("engine",)),
    # Messages between chains [LB12]
    _interop("timestamps_verified_total", COUNTER, "Rounds verified, each of one second of all chains"),
    _interop("verified_timestamp", GAUGE, "Time of the last verified round", initial=UNKNOWN),
    _interop("invalidations_total", COUNTER, "Blocks denied because of an invalid message", "chain_id"),
    _interop(
        "round_decisions_total",
        COUNTER,
        "Decisions of rounds",
        "decision",
        series=(("advance",), ("invalidate",), ("rewind",), ("wait",)),
    ),
    _interop("rewinds_total", COUNTER, "Rewinds because L1 had left a block that rounds depended on"),
    _interop("activity_state", GAUGE, "0 not started, 1 preparing, 2 running, 3 waiting for an operator"),
    # p2p [MET18]
    Metric("p2p_held_bytes", GAUGE, "Bytes received from peers or kept for them", (), _P2P),
    Metric("p2p_streams_dropped_total", COUNTER, "Streams dropped because of the bytes they held", ("protocol",), _P2P),
    Metric("p2p_discovery_nodes", GAUGE, "Nodes in the discovery table", ("kind",), _P2P),
    Metric("p2p_discovery_drops_total", COUNTER, "Discovery datagrams dropped", ("reason",), _P2P),
)
