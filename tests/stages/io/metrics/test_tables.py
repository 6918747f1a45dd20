"""Rows of the metric tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rollup_node.stages.io.metrics import tables
from rollup_node.stages.p2p.gossipsub.peers import TraceEvent
from rollup_node.tools.commands.doc import MISSING_METRICS

Row = tuple[str, str, tuple[str, ...]]


def ours() -> Iterator[Row]:
    """Full name, type and labels of all rows."""
    for metric in tables.OP_NODE_METRICS:
        for exposed in metric.exposed():
            yield exposed.name, exposed.type, exposed.labels
    for missing in MISSING_METRICS:
        yield tables.PREFIX + missing.name, missing.type.value, missing.labels


def test_all_89_names_of_op_node_with_type_and_labels(shared_data: Path) -> None:
    path = shared_data / "op_node_metrics.tsv"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    theirs = {(name, kind, tuple(filter(None, labels.split(",")))) for name, kind, labels in rows}
    assert len(theirs) == 89
    assert sorted(ours()) == sorted(theirs)


def test_there_are_89_and_each_absent_one_has_a_reason() -> None:
    rows = list(ours())
    assert len(rows) == len(set(rows)) == 89
    assert all(missing.why for missing in MISSING_METRICS)


def test_the_gossip_events_are_those_that_are_counted() -> None:
    metric = next(metric for metric in tables.OP_NODE_METRICS if metric.name == "p2p_gossip_events_total")
    assert {event for (event,) in metric.series} == {event.value for event in TraceEvent}
