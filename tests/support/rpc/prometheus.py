"""Reads PromQL as far as tests need it: which metrics an expression uses, with which labels."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rollup_node.stages.io.metrics.meter import LABELLED_FAMILIES, TABLE
from rollup_node.stages.io.metrics.tables import ExposedMetric
from rollup_node.tools.watch.server import HELP

ADDED = {"instance", "job"}
"""Labels that Prometheus adds."""
_SELECTOR = re.compile(r"(?<![\w:$\"])((?:op_node_default_|process_|rollup_node_watch_)\w+)(?:\{([^}]*)\})?")
_RATED = re.compile(r"\b(?:rate|increase)\(((?:op_node_default_|process_|rollup_node_watch_)\w+)")
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


class Selector(NamedTuple):
    """A metric in an expression; `is_rated` where its rate or increase is taken."""

    name: str
    labels: frozenset[str]
    is_rated: bool


def selectors(expression: str) -> Iterator[Selector]:
    """Yield the metrics in an expression."""
    rated = set(_RATED.findall(expression))
    for name, labels in _SELECTOR.findall(expression):
        yield Selector(name, frozenset(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)), name in rated)


def exposed_metrics() -> dict[str, ExposedMetric]:
    """Every name that a sample of a node or of `watch` may have."""
    result: dict[str, ExposedMetric] = {}
    for metric in TABLE:
        for exposed in metric.exposed():
            if exposed.name in LABELLED_FAMILIES:
                exposed = exposed._replace(labels=(*exposed.labels, "process"))
            if exposed.type == "histogram":
                result |= {f"{exposed.name}{part}": exposed for part in _HISTOGRAM_PARTS}
            else:
                result[exposed.name] = exposed
    watch = {name: ExposedMetric(name, "gauge", labels, text) for name, (text, labels) in HELP.items()}
    return result | watch


def mistakes(expression: str) -> list[str]:
    """Return what is wrong with the metrics in an expression."""
    known, result = exposed_metrics(), []
    for selector in selectors(expression):
        metric = known.get(selector.name)
        if metric is None:
            result.append(f"{selector.name} does not exist")
        elif unknown := selector.labels - set(metric.labels) - ADDED - {"le"}:
            result.append(f"{selector.name} has no labels {sorted(unknown)}")
        elif selector.is_rated == (metric.type == "gauge" and not selector.name.endswith("_total")):
            result.append(f"{selector.name} is a {metric.type}")
    return result
