"""What a row of the metric tables says: name, type, labels, and the processes that count it [MET2, MET3]."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

PREFIX = "op_node_default_"

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class MetricType(Enum):
    """COUNTER only rises.

    GAUGE takes any value; HISTOGRAM counts observations in buckets; EVENT is the pair `<name>_total` and
    `last_<name>_unix` [MET3]."""

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
    """One metric.

    `processes` are the roles that count it, each under label values of its own; without any it is of every process and
    gets the label `process` when the expositions are merged.

    From the start of its process a metric without labels is exposed with `initial`, and one with labels as zero for
    each tuple of label values in `series`. `prefix` is empty for names that Prometheus itself prescribes [MET2]."""

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


class MissingMetric(NamedTuple):
    """A metric of op-node that this node does not expose, by its name without prefix, and why."""

    name: str
    type: MetricType
    labels: tuple[str, ...]
    why: str
