"""The table of all metrics, and the meter by which a process counts. A metric that is not in the table cannot be
counted; one that is never counted does not appear. Names are op-node's where it has the metric (node-behaviour 3)."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

M = TypeVar("M", Counter, Gauge, Histogram)

PREFIX = "op_node_default_"

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
REORG_DEPTHS = (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 20.5, 50.5, 100.5)
SCORES = (-100.0, -40.0, -20.0, -10.0, -5.0, -2.0, -1.0, -0.5, -0.05, 0.0, 0.05, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
SIGNED_SECONDS = (-10.0, -5.0, -2.5, -1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


class Kind(Enum):
    """COUNTER: only rises (a name without `_total` is exposed as a gauge, as Prometheus libraries rename counters);
    GAUGE: any value; HISTOGRAM: observations in buckets; EVENT: the pair `<name>_total` and `last_<name>_unix`."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    EVENT = "event"


@dataclass(frozen=True)
class Metric:
    """One row of the table. `prefix` is empty for the names that Prometheus itself prescribes."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS
    prefix: str = PREFIX


_RPC = ("rpc", "method")
_REQUEST = ("p2p_role", "p2p_method", "result_code")

_TABLE: tuple[Metric, ...] = (
    # The node as a whole (supervisor)
    Metric("info", Kind.GAUGE, "Version of the node", ("version",)),
    Metric("up", Kind.GAUGE, "1 once every process has been ready"),
    Metric("process_up", Kind.GAUGE, "1 while the process is ready", ("process",), prefix=""),
    Metric("process_restarts_total", Kind.COUNTER, "Restarts of the process", ("process",), prefix=""),
    Metric("process_incarnation", Kind.GAUGE, "Number of the process's present life", ("process",), prefix=""),
    Metric("process_heartbeat_age_seconds", Kind.GAUGE, "Time since the process last beat", ("process",), prefix=""),
    Metric("process_resident_memory_bytes", Kind.GAUGE, "Resident memory", ("process",), prefix=""),
    Metric("process_cpu_seconds_total", Kind.COUNTER, "User and system CPU time", ("process",), prefix=""),
    # Every process (runtime)
    Metric("activity_errors_total", Kind.COUNTER, "Steps that failed", ("activity", "severity")),
    Metric("activity_problems", Kind.GAUGE, "Activities that are in trouble now"),
    Metric("bus_events_total", Kind.COUNTER, "Messages refused, lost or sent otherwise than planned", ("event",)),
    Metric("log_lines_dropped_total", Kind.COUNTER, "Log lines given up because the output was blocked"),
    # Outgoing and incoming calls
    Metric("rpc_client_requests_total", Kind.COUNTER, "Outgoing calls", _RPC),
    Metric("rpc_client_request_duration_seconds", Kind.HISTOGRAM, "Duration of outgoing calls", _RPC),
    Metric("rpc_client_responses_total", Kind.COUNTER, "Answers to outgoing calls", (*_RPC, "error")),
    Metric("rpc_server_requests_total", Kind.COUNTER, "Calls served", _RPC),
    Metric("rpc_server_request_duration_seconds", Kind.HISTOGRAM, "Duration of served calls", _RPC),
    Metric("rpc_server_responses_total", Kind.COUNTER, "Answers to served calls", (*_RPC, "error")),
    Metric(
        "rpc_server_connections_closed_total",
        Kind.COUNTER,
        "Connections closed for malformed requests, time, number or memory",
        ("server", "reason"),
    ),
    # l1
    Metric("l1_reorg_depth", Kind.HISTOGRAM, "Blocks undone by an L1 reorg", buckets=REORG_DEPTHS),
    Metric("l1_source_cache_size", Kind.GAUGE, "Entries cached", ("type",)),
    # derivation
    Metric("derivation_idle", Kind.GAUGE, "1 when derivation has no more data"),
    Metric("pipeline_resets", Kind.EVENT, "Resets of the derivation pipeline"),
    Metric("derived_batches", Kind.EVENT, "Batches derived", ("type",)),
    Metric("derivation_drops_total", Kind.COUNTER, "What went no further, by rule", ("effect", "rule")),
    Metric("head_channel", Kind.EVENT, "Changes of the channel read"),
    Metric("channel_timeout", Kind.EVENT, "Channels that timed out"),
    Metric("frame_added", Kind.EVENT, "Frames added to channels"),
    Metric("channel_input_bytes", Kind.COUNTER, "Compressed bytes added to channels"),
    # engine
    Metric("refs_number", Kind.GAUGE, "Number of a head", ("layer", "type")),
    Metric("refs_time", Kind.GAUGE, "Timestamp of a head", ("layer", "type")),
    Metric("refs_hash", Kind.GAUGE, "First 8 bytes of a head's hash", ("layer", "type")),
    Metric("refs_latency", Kind.GAUGE, "Timestamp of a head less the time of its arrival", ("layer", "type")),
    Metric("refs_seqnr", Kind.GAUGE, "Sequence number of an L2 head", ("type",)),
    Metric("unsafe_payloads", Kind.EVENT, "Unsafe payloads received"),
    Metric("unsafe_payloads_buffer_len", Kind.GAUGE, "Unsafe payloads waiting for their parent"),
    Metric("unsafe_payloads_buffer_mem_size", Kind.GAUGE, "Bytes of unsafe payloads waiting for their parent"),
    Metric("sequencer_active", Kind.GAUGE, "1 while sequencing"),
    Metric("sequencing_errors", Kind.EVENT, "Errors while sequencing"),
    Metric("publishing_errors", Kind.EVENT, "Sequenced blocks that were not published"),
    Metric("sequencer_inconsistent_l1_origin", Kind.EVENT, "Origins that did not fit the L2 head"),
    Metric("sequencer_resets", Kind.EVENT, "Resets asked for by the sequencer"),
    Metric(
        "sequencer_building_diff_seconds",
        Kind.HISTOGRAM,
        "Building time of a block less the block time",
        buckets=SIGNED_SECONDS,
    ),
    Metric("sequencer_building_diff_total", Kind.COUNTER, "Blocks built"),
    Metric("sequencer_sealing_seconds", Kind.HISTOGRAM, "Time to seal a block"),
    Metric("sequencer_sealing_total", Kind.COUNTER, "Blocks sealed"),
    Metric("transactions_sequenced_total", Kind.COUNTER, "Transactions in sealed blocks", ("type",)),
    # p2p
    Metric("p2p_peer_count", Kind.GAUGE, "Connected peers"),
    Metric("p2p_stream_count", Kind.GAUGE, "Open streams"),
    Metric("p2p_bandwidth_bytes_total", Kind.GAUGE, "Bytes over connections to peers", ("direction",)),
    Metric("p2p_dials", Kind.COUNTER, "Addresses that were to be dialled", ("allow",)),
    Metric("p2p_accepts", Kind.COUNTER, "Incoming connections", ("allow",)),
    Metric("p2p_peer_unbans", Kind.COUNTER, "Bans of peers that ended"),
    Metric("p2p_ip_unbans", Kind.COUNTER, "Bans of addresses that ended"),
    Metric("peer_scores", Kind.HISTOGRAM, "Scores of connected peers, by part", ("type",), buckets=SCORES),
    Metric("p2p_gossip_events_total", Kind.COUNTER, "What gossip did, by the names of its trace events", ("type",)),
    Metric("p2p_req_total", Kind.COUNTER, "Requests for blocks, of peers and to them", _REQUEST),
    Metric("p2p_req_duration_seconds", Kind.HISTOGRAM, "Duration of requests for blocks", _REQUEST),
    Metric("p2p_payload_by_number", Kind.GAUGE, "Number of the last block served or received", ("p2p_role",)),
    Metric("p2p_payloads_quarantine_total", Kind.GAUGE, "Blocks of peers that nobody vouches for yet"),
    Metric("p2p_discovery_nodes", Kind.GAUGE, "Nodes in the discovery table", ("kind",)),
    Metric("p2p_discovery_drops_total", Kind.COUNTER, "Discovery datagrams that went no further", ("reason",)),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}


class UnknownMetricError(KeyError):
    """A name that is not in the table."""


class Meter:
    """The metrics of one process, in a registry of their own. A series starts to exist when it is first used."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.registry = CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {}

    def count(self, name: str, amount: float = 1, **labels: object) -> None:
        """Adds to a counter, or notes an event and its time."""
        metric = _row(name)
        if metric.kind is Kind.EVENT:
            _child(self._counter(f"{name}_total", metric), labels).inc(amount)
            _child(self._gauge(f"last_{name}_unix", metric), labels).set_to_current_time()
            return
        _expect(metric, Kind.COUNTER)
        if name.endswith("_total"):
            _child(self._counter(name, metric), labels).inc(amount)
        else:
            _child(self._gauge(name, metric), labels).inc(amount)

    def set(self, name: str, value: float, **labels: object) -> None:
        """Sets a gauge."""
        metric = _row(name)
        _expect(metric, Kind.GAUGE)
        _child(self._gauge(name, metric), labels).set(value)

    def observe(self, name: str, seconds: float, **labels: object) -> None:
        """Adds one observation to a histogram."""
        metric = _row(name)
        _expect(metric, Kind.HISTOGRAM)
        made = self._made.get(name)
        if not isinstance(made, Histogram):
            full = metric.prefix + name
            made = Histogram(full, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets)
            self._made[name] = made
        _child(made, labels).observe(seconds)

    def text(self) -> bytes:
        """The Prometheus text exposition of everything counted so far."""
        return generate_latest(self.registry)

    def _counter(self, name: str, metric: Metric) -> Counter:
        made = self._made.get(name)
        if not isinstance(made, Counter):
            made = self._made[name] = Counter(metric.prefix + name, metric.help, metric.labels, registry=self.registry)
        return made

    def _gauge(self, name: str, metric: Metric) -> Gauge:
        made = self._made.get(name)
        if not isinstance(made, Gauge):
            made = self._made[name] = Gauge(metric.prefix + name, metric.help, metric.labels, registry=self.registry)
        return made


def _row(name: str) -> Metric:
    try:
        return METRICS[name]
    except KeyError:
        raise UnknownMetricError(f"no metric named {name!r} in stages/metrics.py") from None


def _expect(metric: Metric, kind: Kind) -> None:
    if metric.kind is not kind:
        raise UnknownMetricError(f"metric {metric.name!r} is a {metric.kind.value}, not a {kind.value}")


def _child(made: M, labels: dict[str, object]) -> M:
    return made.labels(**{key: str(value) for key, value in labels.items()}) if labels else made
