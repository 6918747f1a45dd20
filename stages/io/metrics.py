"""The table of all metrics, and the meter of a process. A metric that is not in the table cannot be set; one that is
never set is not exposed. Names are op-node's where it has the metric [MET2, MET3]."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

M = TypeVar("M", Counter, Gauge, Histogram)

_Key = tuple[Sequence[str], ...]

PREFIX = "op_node_default_"

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
REORG_DEPTHS = (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 20.5, 50.5, 100.5)
SCORES = (-100.0, -40.0, -20.0, -10.0, -5.0, -2.0, -1.0, -0.5, -0.05, 0.0, 0.05, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
SIGNED_SECONDS = (-10.0, -5.0, -2.5, -1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


class MetricType(Enum):
    """COUNTER only rises; GAUGE takes any value; HISTOGRAM counts observations in buckets; EVENT is the pair
    `<name>_total` and `last_<name>_unix` [MET3].

    A COUNTER whose name lacks `_total` is exposed as a gauge: Prometheus libraries would rename it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    EVENT = "event"


@dataclass(frozen=True)
class Metric:
    """One metric. `prefix` is empty for names that Prometheus itself prescribes [MET2]."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS
    prefix: str = PREFIX


_RPC = ("rpc", "method")
_REQUEST = ("p2p_role", "p2p_method", "result_code")

TABLE: tuple[Metric, ...] = (
    # The node as a whole, set by the supervisor [MET5]
    Metric("info", MetricType.GAUGE, "Version of the node", ("version",)),
    Metric("up", MetricType.GAUGE, "1 after every process has been ready"),
    Metric("process_up", MetricType.GAUGE, "1 while the process is ready", ("process",), prefix=""),
    Metric("process_restarts_total", MetricType.COUNTER, "Restarts of the process", ("process",), prefix=""),
    Metric("process_incarnation", MetricType.GAUGE, "Starts of the process", ("process",), prefix=""),
    Metric("process_heartbeat_age_seconds", MetricType.GAUGE, "Time since the last heartbeat", ("process",), prefix=""),
    Metric("process_resident_memory_bytes", MetricType.GAUGE, "Resident memory", ("process",), prefix=""),
    Metric("process_cpu_seconds_total", MetricType.COUNTER, "User and system CPU time", ("process",), prefix=""),
    # Every process, set by the runtime
    Metric("activity_errors_total", MetricType.COUNTER, "Failed steps of periodic tasks", ("activity", "severity")),
    Metric("activity_problems", MetricType.GAUGE, "Periodic tasks whose last step failed"),
    Metric("bus_events_total", MetricType.COUNTER, "Messages and tasks of the bus that failed, by event", ("event",)),
    Metric("log_lines_dropped_total", MetricType.COUNTER, "Log lines dropped because the output was blocked"),
    # JSON-RPC clients and the server [MET6, MET7]
    Metric("rpc_client_requests_total", MetricType.COUNTER, "Requests sent", _RPC),
    Metric("rpc_client_request_duration_seconds", MetricType.HISTOGRAM, "Duration of requests sent", _RPC),
    Metric("rpc_client_responses_total", MetricType.COUNTER, "Responses received", (*_RPC, "error")),
    Metric("rpc_server_requests_total", MetricType.COUNTER, "Requests served", _RPC),
    Metric("rpc_server_request_duration_seconds", MetricType.HISTOGRAM, "Duration of requests served", _RPC),
    Metric("rpc_server_responses_total", MetricType.COUNTER, "Responses sent", (*_RPC, "error")),
    Metric(
        "rpc_server_connections_closed_total",
        MetricType.COUNTER,
        "Connections closed as malformed, late, too many or too large",
        ("server", "reason"),
    ),
    # l1 [MET8, MET14]
    Metric("l1_endpoint_usable", MetricType.GAUGE, "0 while the L1 endpoint is set aside", ("endpoint",)),
    Metric(
        "l1_endpoint_set_aside_total",
        MetricType.COUNTER,
        "Times that the L1 endpoint was set aside, by its fault",
        ("endpoint", "fault"),
    ),
    Metric("l1_reorg_depth", MetricType.HISTOGRAM, "Depth of L1 reorgs in blocks", buckets=REORG_DEPTHS),
    Metric("l1_source_cache_size", MetricType.GAUGE, "Entries cached", ("type",)),
    # derivation [MET9, MET11]
    Metric("derivation_idle", MetricType.GAUGE, "1 when derivation has no more data"),
    Metric("pipeline_resets", MetricType.EVENT, "Resets of the derivation pipeline"),
    Metric("derived_batches", MetricType.EVENT, "Batches derived", ("type",)),
    Metric("derivation_drops_total", MetricType.COUNTER, "Data dropped by derivation, by rule", ("effect", "rule")),
    Metric("head_channel", MetricType.EVENT, "Changes of the channel that is read"),
    Metric("channel_timeout", MetricType.EVENT, "Channels that timed out"),
    Metric("frame_added", MetricType.EVENT, "Frames added to channels"),
    Metric("channel_input_bytes", MetricType.COUNTER, "Compressed bytes added to channels"),
    # Alt-DA [ADA13]
    Metric("challenges_status", MetricType.GAUGE, "Alt-DA challenges seen, by status", ("status",)),
    Metric("challenges_head", MetricType.GAUGE, "L1 block up to which Alt-DA challenges are known", ("type",)),
    Metric("storage_errors", MetricType.EVENT, "Failed requests to the DA server"),
    Metric("protocol_version_delta", MetricType.GAUGE, "How a version compares with one that L1 signals", ("type",)),
    # engine [MET10, MET12, MET13, MET22 to MET25]
    Metric("refs_number", MetricType.GAUGE, "Number of a head", ("layer", "type")),
    Metric("refs_time", MetricType.GAUGE, "Timestamp of a head", ("layer", "type")),
    Metric("refs_hash", MetricType.GAUGE, "First 8 bytes of a head's hash", ("layer", "type")),
    Metric("refs_latency", MetricType.GAUGE, "Timestamp of a head less the time when it was set", ("layer", "type")),
    Metric("refs_seqnr", MetricType.GAUGE, "Sequence number of an L2 head", ("type",)),
    Metric("unsafe_payloads", MetricType.EVENT, "Unsafe payloads received"),
    Metric("unsafe_payloads_buffer_len", MetricType.GAUGE, "Unsafe payloads waiting for their parent"),
    Metric("unsafe_payloads_buffer_mem_size", MetricType.GAUGE, "Bytes of unsafe payloads waiting for their parent"),
    Metric("follow_source_requests_total", MetricType.COUNTER, "Rounds of following another node", ("result",)),
    Metric("sequencer_active", MetricType.GAUGE, "1 while sequencing"),
    Metric("sequencing_errors", MetricType.EVENT, "Errors while sequencing"),
    Metric("publishing_errors", MetricType.EVENT, "Sequenced blocks that were not published"),
    Metric("sequencer_inconsistent_l1_origin", MetricType.EVENT, "L1 origins inconsistent with the L2 head"),
    Metric("sequencer_resets", MetricType.EVENT, "Resets requested by the sequencer"),
    Metric(
        "sequencer_building_diff_seconds",
        MetricType.HISTOGRAM,
        "Building time of a block less the block time",
        buckets=SIGNED_SECONDS,
    ),
    Metric("sequencer_building_diff_total", MetricType.COUNTER, "Blocks built"),
    Metric("sequencer_sealing_seconds", MetricType.HISTOGRAM, "Time to seal a block"),
    Metric("sequencer_sealing_total", MetricType.COUNTER, "Blocks sealed"),
    Metric("transactions_sequenced_total", MetricType.COUNTER, "Transactions in sealed blocks", ("type",)),
    # p2p [MET15 to MET19]
    Metric("p2p_peer_count", MetricType.GAUGE, "Connected peers"),
    Metric("p2p_stream_count", MetricType.GAUGE, "Open streams"),
    Metric("p2p_held_bytes", MetricType.GAUGE, "Bytes received from peers or kept for them, not yet processed or sent"),
    Metric("p2p_streams_dropped_total", MetricType.COUNTER, "Streams dropped for the bytes they held", ("protocol",)),
    Metric("p2p_bandwidth_bytes_total", MetricType.GAUGE, "Bytes over connections to peers", ("direction",)),
    Metric("p2p_dials", MetricType.COUNTER, "Outgoing dials", ("allow",)),
    Metric("p2p_accepts", MetricType.COUNTER, "Incoming connections", ("allow",)),
    Metric("p2p_peer_unbans", MetricType.COUNTER, "Peers unbanned"),
    Metric("p2p_ip_unbans", MetricType.COUNTER, "IP addresses unbanned"),
    Metric("peer_scores", MetricType.HISTOGRAM, "Scores of connected peers, by component", ("type",), buckets=SCORES),
    Metric("p2p_gossip_events_total", MetricType.COUNTER, "Gossip events, by pubsub's trace event", ("type",)),
    Metric("p2p_req_total", MetricType.COUNTER, "Requests for blocks, sent and served", _REQUEST),
    Metric("p2p_req_duration_seconds", MetricType.HISTOGRAM, "Duration of requests for blocks", _REQUEST),
    Metric("p2p_payload_by_number", MetricType.GAUGE, "Number of the last block served or received", ("p2p_role",)),
    Metric("p2p_payloads_quarantine_total", MetricType.GAUGE, "Blocks of peers that are not confirmed yet"),
    Metric("p2p_discovery_nodes", MetricType.GAUGE, "Nodes in the discovery table", ("kind",)),
    Metric("p2p_discovery_drops_total", MetricType.COUNTER, "Discovery datagrams dropped", ("reason",)),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in TABLE}


class UnknownMetricError(KeyError):
    """A name that is not in the table, or whose metric has another type."""


class _Event(NamedTuple):
    """The two series of an event."""

    total: Counter
    last: Gauge

    def inc(self, amount: float) -> None:
        """Records events and the present time."""
        self.total.inc(amount)
        self.last.set_to_current_time()


class Meter:
    """The metrics of one process, in a registry of their own. A series exists from its first use.

    All methods raise UnknownMetricError for a name that is not in the table or has another type."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.registry = CollectorRegistry()
        self._collectors: dict[str, Counter | Gauge | Histogram] = {}
        # By name and labels: prometheus_client takes longer to find a series than to count.
        self._counted: dict[_Key, Counter | Gauge | _Event] = {}
        self._set: dict[_Key, Gauge] = {}
        self._observed: dict[_Key, Histogram] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter, or records events and the present time."""
        key = (name, *labels.items())
        series = self._counted.get(key)
        if series is None:
            series = self._counted[key] = self._counted_series(name, labels)
        series.inc(amount)

    def counter(self, name: str, **labels: str) -> Counter:
        """One series of a counter whose name ends in `_total`, for what is counted very often."""
        metric = _metric(name)
        _expect(metric, MetricType.COUNTER)
        if not name.endswith("_total"):
            raise UnknownMetricError(f"metric {name!r} is exposed as a gauge")
        return _child(self._counter(name, metric), labels)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""
        key = (name, *labels.items())
        series = self._set.get(key)
        if series is None:
            metric = _metric(name)
            _expect(metric, MetricType.GAUGE)
            series = self._set[key] = _child(self._gauge(name, metric), labels)
        series.set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds one observation to a histogram; the unit is that of the metric."""
        key = (name, *labels.items())
        series = self._observed.get(key)
        if series is None:
            series = self._observed[key] = _child(self._histogram(name), labels)
        series.observe(value)

    def text(self) -> bytes:
        """The Prometheus text exposition of all series."""
        return generate_latest(self.registry)

    def _counted_series(self, name: str, labels: dict[str, str]) -> "Counter | Gauge | _Event":
        metric = _metric(name)
        if metric.type is MetricType.EVENT:
            total = _child(self._counter(f"{name}_total", metric), labels)
            return _Event(total, _child(self._gauge(f"last_{name}_unix", metric), labels))
        _expect(metric, MetricType.COUNTER)
        if name.endswith("_total"):
            return _child(self._counter(name, metric), labels)
        return _child(self._gauge(name, metric), labels)

    def _histogram(self, name: str) -> Histogram:
        metric = _metric(name)
        _expect(metric, MetricType.HISTOGRAM)
        collector = self._collectors.get(name)
        if not isinstance(collector, Histogram):
            full = metric.prefix + name
            collector = Histogram(full, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets)
            self._collectors[name] = collector
        return collector

    def _counter(self, name: str, metric: Metric) -> Counter:
        collector = self._collectors.get(name)
        if not isinstance(collector, Counter):
            collector = self._collectors[name] = Counter(
                metric.prefix + name, metric.help, metric.labels, registry=self.registry
            )
        return collector

    def _gauge(self, name: str, metric: Metric) -> Gauge:
        collector = self._collectors.get(name)
        if not isinstance(collector, Gauge):
            collector = self._collectors[name] = Gauge(
                metric.prefix + name, metric.help, metric.labels, registry=self.registry
            )
        return collector


def _metric(name: str) -> Metric:
    try:
        return METRICS[name]
    except KeyError:
        raise UnknownMetricError(f"no metric named {name!r} in stages/io/metrics.py") from None


def _expect(metric: Metric, wanted: MetricType) -> None:
    if metric.type is not wanted:
        raise UnknownMetricError(f"metric {metric.name!r} is a {metric.type.value}, not a {wanted.value}")


def _child(collector: M, labels: dict[str, str]) -> M:
    return collector.labels(**labels) if labels else collector
