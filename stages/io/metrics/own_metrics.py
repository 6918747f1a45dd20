"""The metrics that op-node does not have: of processes, endpoints, of how the node follows L1, of what is dropped."""

import math

from rollup_node.stages.io.metrics.metric import Metric, MetricType
from rollup_node.stages.messages.derivation import DerivationWaits, DropEffect

COUNTER, GAUGE = MetricType.COUNTER, MetricType.GAUGE

UNKNOWN = math.nan
"""The value of a gauge as long as it is not known: neither a panel nor an alert takes it for zero."""

STATES = ("starting", "EL sync", "syncing", "synced", "following", "waiting")

_SUPERVISOR, _L1, _DERIVATION, _P2P, _RPC = ("supervisor",), ("l1",), ("derivation",), ("p2p",), ("rpc",)
_PROCESS, _ENDPOINT = ("process",), ("rpc", "endpoint")
_SOURCES = ("l1", "blobs")

OWN_METRICS: tuple[Metric, ...] = (
    # Processes, by the supervisor [MET5]
    Metric("process_up", GAUGE, "1 while the process is ready", _PROCESS, _SUPERVISOR, prefix=""),
    Metric("process_restarts_total", COUNTER, "Restarts of the process", _PROCESS, _SUPERVISOR, prefix=""),
    Metric("process_incarnation", GAUGE, "Starts of the process", _PROCESS, _SUPERVISOR, prefix=""),
    Metric("process_heartbeat_age_seconds", GAUGE, "Time since the last heartbeat", _PROCESS, _SUPERVISOR, prefix=""),
    Metric(
        "process_resident_memory_bytes",
        GAUGE,
        "Resident memory; each process counts shared memory, so the sum is too high",
        _PROCESS,
        _SUPERVISOR,
        prefix="",
    ),
    Metric(
        "process_proportional_memory_bytes",
        GAUGE,
        "Memory with a proportional share of shared memory (PSS); the sum is the memory of the node",
        _PROCESS,
        _SUPERVISOR,
        prefix="",
    ),
    Metric("process_cpu_seconds_total", COUNTER, "User and system CPU time", _PROCESS, _SUPERVISOR, prefix=""),
    # Every process, by its runtime
    Metric("activity_errors_total", COUNTER, "Failed steps of periodic tasks", ("activity", "severity")),
    Metric("activity_problems", GAUGE, "Periodic tasks whose last step failed"),
    Metric("bus_events_total", COUNTER, "Messages and tasks of the bus that failed, by event", ("event",)),
    Metric("log_lines_dropped_total", COUNTER, "Log lines dropped because the output was blocked"),
    # How the node follows L1, by rpc [RPC94]
    Metric("ready", GAUGE, "1 while /readyz answers 200", (), _RPC),
    Metric("sync_state", GAUGE, "1 for the state of the node", ("state",), _RPC, tuple((name,) for name in STATES)),
    Metric("sync_head_age_seconds", GAUGE, "Age of the unsafe, safe or finalized head", ("head",), _RPC),
    Metric(
        "sync_l1_lag_seconds",
        GAUGE,
        "Time from the L1 block that derivation reads to the L1 head",
        (),
        _RPC,
        initial=UNKNOWN,
    ),
    Metric("sync_l1_lag_blocks", GAUGE, "L1 blocks that derivation could already read", (), _RPC, initial=UNKNOWN),
    Metric("sync_blocks_per_second", GAUGE, "L2 blocks that become safe per second", (), _RPC, initial=UNKNOWN),
    Metric("sync_eta_seconds", GAUGE, "Time until the node has caught up, while it syncs", (), _RPC, initial=UNKNOWN),
    Metric(
        "sync_limited_by",
        GAUGE,
        "1 for the process that derivation waits for most, while the node syncs",
        ("stage",),
        _RPC,
        tuple((name,) for name in DerivationWaits.__struct_fields__),
    ),
    Metric(
        "l1_requests_per_block",
        GAUGE,
        "Calls to L1 for each L1 block that derivation read, over ten minutes",
        (),
        _RPC,
        initial=UNKNOWN,
    ),
    Metric(
        "sequencing_window_left_blocks", GAUGE, "L1 blocks left of the sequencing window", (), _RPC, initial=UNKNOWN
    ),
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
    # p2p [MET18]
    Metric("p2p_held_bytes", GAUGE, "Bytes received from peers or kept for them", (), _P2P),
    Metric("p2p_streams_dropped_total", COUNTER, "Streams dropped because of the bytes they held", ("protocol",), _P2P),
    Metric("p2p_discovery_nodes", GAUGE, "Nodes in the discovery table", ("kind",), _P2P),
    Metric("p2p_discovery_drops_total", COUNTER, "Discovery datagrams dropped", ("reason",), _P2P),
)
