"""The meter of a process: what is not in the table of metrics cannot be set [MET2, MET3, MET22 to MET26]."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import Metric as ClientMetric
from prometheus_client.samples import Sample

from rollup_node.stages.io.metrics.tables import OP_NODE_METRICS, OWN_METRICS, Metric, MetricType
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef

M = TypeVar("M", Counter, Gauge, Histogram)

EXEMPLAR = "trace_id"
"""The label of an exemplar, by which Grafana finds the trace."""

_Key = tuple[Sequence[str], ...]

disable_created_metrics()  # type: ignore[no-untyped-call]

TABLE: tuple[Metric, ...] = (*OP_NODE_METRICS, *OWN_METRICS)

METRICS: dict[str, Metric] = {metric.name: metric for metric in TABLE}

LABELLED_FAMILIES: frozenset[str] = frozenset(
    exposed.name for metric in TABLE if not metric.processes for exposed in metric.exposed()
)
"""The full names of the metrics that every process has: they differ by the label `process`."""


class _Histogram(Histogram):
    """The sum is exposed also where values may be negative, as op-node does."""

    def _child_samples(self) -> Iterable[Sample]:
        samples = list(super()._child_samples())
        if not any(sample.name == "_sum" for sample in samples):
            samples.append(Sample("_sum", {}, self._sum.get(), None, None))
        return samples


class _ChainRegistry(CollectorRegistry):
    """Every sample has the label `chain`."""

    def __init__(self, chain: str) -> None:
        super().__init__()
        self._chain = chain

    def collect(self) -> Iterable[ClientMetric]:
        for family in super().collect():
            family.samples = [
                sample._replace(labels={"chain": self._chain, **sample.labels}) for sample in family.samples
            ]
            yield family


class UnknownMetricError(KeyError):
    """A name that is not in the table, or whose metric has another type."""


class _Event(NamedTuple):
    total: Counter
    last: Gauge

    def inc(self, amount: float) -> None:
        """Record events and the present time."""
        self.total.inc(amount)
        self.last.set_to_current_time()


class Meter:
    """The metrics of one process, in a registry of their own. A series exists from `expose` or from its first use.

    All have the label `chain` in a process that works for one of several chains [LIF33].

    All methods raise UnknownMetricError for a name that is not in the table or has another type."""

    def __init__(self, process: str, chain: str = "") -> None:
        self.process = process
        self.registry = _ChainRegistry(chain) if chain else CollectorRegistry()
        self._collectors: dict[str, Counter | Gauge | Histogram] = {}
        # By name and labels: prometheus_client takes longer to find a series than to count.
        self._counted: dict[_Key, Counter | Gauge | _Event] = {}
        self._set: dict[_Key, Gauge] = {}
        self._observed: dict[_Key, Histogram] = {}
        self._counters_shown_as_gauges: set[bytes] = set()
        self._chains: list[Meter] = []
        self._has_exemplars = False

    def of_chain(self, chain: str) -> "Meter":
        """Return what a shared process measures of one of several chains; this meter where there is only one."""
        if not chain:
            return self
        self._chains.append(Meter(self.process, chain))
        return self._chains[-1]

    def expose(self, role: str) -> None:
        """Make the series that a process of the role has from its start, so that `increase()` sees the first event."""
        for metric in TABLE:
            if role not in (metric.processes or (role,)):
                continue
            for values in metric.series if metric.labels else ((),):
                series = self._series(metric.name, dict(zip(metric.labels, values, strict=True)), metric.type)
                if metric.type is MetricType.GAUGE:
                    series.set(metric.initial)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter, or record events and the present time."""
        key = (name, *labels.items())
        series = self._counted.get(key)
        if series is None:
            series = self._counted[key] = self._series(name, labels, MetricType.COUNTER, MetricType.EVENT)
        series.inc(amount)

    def counter(self, name: str, **labels: str) -> Counter:
        """One series of a counter whose name ends in `_total`, for what is counted very often."""
        series = self._series(name, labels, MetricType.COUNTER)
        if not isinstance(series, Counter):
            raise UnknownMetricError(f"metric {name!r} is exposed as a gauge")
        return series

    def set(self, name: str, value: float, **labels: str) -> None:
        key = (name, *labels.items())
        series = self._set.get(key)
        if series is None:
            series = self._set[key] = self._series(name, labels, MetricType.GAUGE)
        series.set(value)

    def observe(self, name: str, value: float, trace: bytes = b"", /, **labels: str) -> None:
        """Add one observation to a histogram, in the unit of the metric; a `trace` becomes its exemplar [MET31]."""
        key = (name, *labels.items())
        series = self._observed.get(key)
        if series is None:
            series = self._observed[key] = self._series(name, labels, MetricType.HISTOGRAM)
        self._has_exemplars |= bool(trace)
        series.observe(value, {EXEMPLAR: trace.hex()} if trace else None)

    def text(self) -> bytes:
        """Return the Prometheus text exposition of all series."""
        text = generate_latest(self.registry)
        for name in self._counters_shown_as_gauges:
            # The library would add `_total` to the name of a counter.
            text = text.replace(b"# TYPE %s gauge\n" % name, b"# TYPE %s counter\n" % name)
        if self._has_exemplars:
            text = _with_exemplars(text, self.registry)
        return text + b"".join(meter.text() for meter in self._chains)

    def _series(self, name: str, labels: dict[str, str], *types: MetricType) -> Any:
        """Return the series of a metric of one of these types, of the type that prometheus_client has for it."""
        metric = METRICS.get(name)
        if metric is None:
            raise UnknownMetricError(f"no metric named {name!r} in the tables of stages/io")
        if metric.type not in types:
            raise UnknownMetricError(f"metric {name!r} is a {metric.type.value}, not a {types[0].value}")
        if metric.type is MetricType.EVENT:
            total = self._child(Counter, f"{name}_total", metric, labels)
            return _Event(total, self._child(Gauge, f"last_{name}_unix", metric, labels))
        if metric.type is MetricType.HISTOGRAM:
            return self._child(_Histogram, name, metric, labels, buckets=metric.buckets)
        if metric.type is MetricType.COUNTER and name.endswith("_total"):
            return self._child(Counter, name, metric, labels)
        if metric.type is MetricType.COUNTER:
            self._counters_shown_as_gauges.add((metric.prefix + name).encode())
        return self._child(Gauge, name, metric, labels)

    def _child(self, kind: type[M], name: str, metric: Metric, labels: dict[str, str], **options: Any) -> M:
        collector = self._collectors.get(name)
        if not isinstance(collector, kind):
            full = metric.prefix + name
            collector = kind(full, metric.help, metric.labels, registry=self.registry, **options)
            self._collectors[name] = collector
        return collector.labels(**labels) if labels else collector


def _with_exemplars(text: bytes, registry: CollectorRegistry) -> bytes:
    """Return the text of a registry with its exemplars behind the lines of their samples, as in OpenMetrics."""
    from prometheus_client.openmetrics.exposition import generate_latest as open_metrics  # only while tracing is on

    lines = (line.partition(b" # {") for line in open_metrics(registry).split(b"\n"))  # type: ignore[no-untyped-call]
    exemplars = {sample: mark + rest for sample, mark, rest in lines if mark}
    return b"\n".join(line + exemplars.get(line, b"") for line in text.split(b"\n"))


def show_l1_block(meter: Meter, name: str, ref: L1BlockRef) -> None:
    _show(meter, "l1", name, ref.number, ref.hash, ref.timestamp)


def show_head(meter: Meter, name: str, ref: L2BlockRef) -> None:
    """Set the metrics of a head, and of its L1 origin, of which the timestamp is not known."""
    _show(meter, "l2", name, ref.number, ref.hash, ref.timestamp)
    show_origin(meter, name, ref.l1_origin)
    meter.set("refs_seqnr", ref.sequence_number, type=name)


def show_payload(meter: Meter, name: str, payload: ExecutionPayload) -> None:
    """Set the metrics of a block whose L1 origin is not read."""
    _show(meter, "l2", name, payload.block_number, payload.block_hash, payload.timestamp)


def show_origin(meter: Meter, name: str, origin: BlockId) -> None:
    """Set the metrics of an L1 origin."""
    _show(meter, "l1_origin", name, origin.number, origin.hash, 0)


def _show(meter: Meter, layer: str, name: str, number: int, block_hash: Hash, timestamp: int) -> None:
    """Set the metrics of a block; a timestamp of 0 is not shown."""
    meter.set("refs_number", number, layer=layer, type=name)
    meter.set("refs_hash", int.from_bytes(block_hash[:8], "little"), layer=layer, type=name)
    if timestamp:
        meter.set("refs_time", timestamp, layer=layer, type=name)
        meter.set("refs_latency", timestamp - time.time(), layer=layer, type=name)
