"""The metrics table and the meter."""

import math
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rollup_node.stages.io.metrics.meter import (
    LABELLED_FAMILIES,
    METRICS,
    TABLE,
    Meter,
    UnknownMetricError,
    show_head,
    show_l1_block,
    show_payload,
)
from rollup_node.stages.io.metrics.tables import MetricType
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from tests.support.p2p.blocks import block

ROOT = Path(__file__).parents[4]
ROLES = ("supervisor", "l1", "blobs", "compute", "derivation", "engine", "interop", "p2p", "rpc")


def series(meter: Meter) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples by name and labels."""
    # The parser adds _total to the names of counters that lack it.
    text = meter.text().decode().replace(" counter\n", " untyped\n")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_metric_can_be_set() -> None:
    assert len(TABLE) == len(METRICS), "names are unique"
    assert {role for metric in TABLE for role in metric.processes} <= set(ROLES)
    meter = Meter("test")
    for metric in TABLE:
        labels = dict.fromkeys(metric.labels, "x")
        if metric.type is MetricType.GAUGE:
            meter.set(metric.name, 2, **labels)
        elif metric.type is MetricType.HISTOGRAM:
            meter.observe(metric.name, 2, **labels)
        else:
            meter.count(metric.name, 2, **labels)
    result = series(meter)
    suffixes = {MetricType.HISTOGRAM: "_count", MetricType.EVENT: "_total"}
    for metric in TABLE:
        name = metric.prefix + metric.name + suffixes.get(metric.type, "")
        value = result[name, tuple(sorted(dict.fromkeys(metric.labels, "x").items()))]
        assert value == (1 if metric.type is MetricType.HISTOGRAM else 2), name
    assert result["op_node_default_last_pipeline_resets_unix", ()] > 1.7e9, "an event records its time"


def test_names_outside_the_table_and_wrong_types_are_rejected() -> None:
    meter = Meter("test")
    with pytest.raises(UnknownMetricError, match="no metric named 'nonsense'"):
        meter.count("nonsense")
    with pytest.raises(UnknownMetricError, match="is a gauge"):
        meter.count("refs_seqnr", type="l2_safe")
    with pytest.raises(UnknownMetricError, match="is a counter"):
        meter.set("sequencer_sealing_total", 1)
    with pytest.raises(ValueError, match="label"):
        meter.set("refs_seqnr", 1, kind="l2_safe")


def test_a_series_that_is_counted_very_often() -> None:
    meter = Meter("derivation")
    series = meter.counter("derivation_drops_total", effect="dropped", rule="V3")
    meter.count("derivation_drops_total", effect="dropped", rule="V3")
    series.inc(2)
    assert b'derivation_drops_total{effect="dropped",rule="V3"} 3.0' in meter.text()
    with pytest.raises(UnknownMetricError, match="exposed as a gauge"):
        meter.counter("channel_input_bytes")
    with pytest.raises(UnknownMetricError, match="is a gauge"):
        meter.counter("derivation_idle")


@pytest.mark.parametrize("role", ROLES)
def test_from_zero(role: str) -> None:
    """Whatever has no labels is there from the start, and each series whose labels are known. Those of a process of a
    chain name it [LIF33]."""
    of_chain = Meter(f"{role}.10", "10")
    of_chain.expose(role)
    assert {dict(labels)["chain"] for _, labels in series(of_chain)} == {"10"}
    meter = Meter(role)
    assert meter.text() == b""
    meter.expose(role)
    result = series(meter)
    own = [metric for metric in TABLE if not metric.processes or role in metric.processes]
    for metric in own:
        suffix = "_count" if metric.type is MetricType.HISTOGRAM else ""
        for exposed in metric.exposed():
            for values in metric.series if metric.labels else ((),):
                value = result[exposed.name + suffix, tuple(sorted(zip(metric.labels, values, strict=True)))]
                assert value == metric.initial or (math.isnan(value) and math.isnan(metric.initial))
    assert "op_node_default_activity_problems" in LABELLED_FAMILIES
    names = {exposed.name for metric in own for exposed in metric.exposed()}
    assert {name for name, _ in result} <= {
        name + suffix for name in names for suffix in ("", "_sum", "_count", "_bucket")
    }


def test_types_are_those_of_op_node() -> None:
    """A counter without `_total` in its name is one, and a histogram of what may be negative has a sum."""
    meter = Meter("p2p")
    meter.expose("p2p")
    text = meter.text().decode()
    assert "# TYPE op_node_default_p2p_accepts counter\n" in text
    assert 'op_node_default_p2p_accepts{allow="true"} 0.0\n' in text
    assert "# TYPE op_node_default_p2p_bandwidth_bytes_total gauge\n" in text
    for value in (-1.5, 0.25):
        meter.observe("sequencer_building_diff_seconds", value)
    meter.observe("sequencer_sealing_seconds", 0.5)
    result = series(meter)
    assert result["op_node_default_sequencer_building_diff_seconds_sum", ()] == -1.25
    assert result["op_node_default_sequencer_sealing_seconds_sum", ()] == 0.5


def counted_names(folder: Path) -> set[str]:
    """Return the names that the sources in a folder count, set or observe."""
    calls = re.compile(
        r'(?:\.(?:count|set|observe|counter|_count_size|_set)|\b(?:Count|Observe))\(\s*(?:[\w.]+, )?"([a-z0-9_]+)"'
    )
    return {name for path in folder.rglob("*.py") for name in calls.findall(path.read_text()) if name in METRICS}


def test_each_metric_is_counted_by_its_process_alone() -> None:
    """Two processes that count one metric would both expose it, without a label to tell them apart."""
    shared = counted_names(ROOT / "stages" / "io")
    counted = {role: counted_names(ROOT / "stages" / role) for role in ROLES if role != "supervisor"}
    counted["supervisor"] = counted_names(ROOT / "node" / "supervisor")
    for role, names in counted.items():
        wrong = {name for name in names if METRICS[name].processes and role not in METRICS[name].processes}
        assert not wrong, f"{role} counts what is not its own: {wrong}"
    runtime = counted_names(ROOT / "node" / "runtime")
    assert all(not METRICS[name].processes for name in runtime)
    for metric in TABLE:
        if metric.name not in shared | runtime:
            missing = [role for role in metric.processes if metric.name not in counted[role]]
            assert metric.processes and not missing, f"{metric.name} is not counted by {missing}"


HASH = bytes(range(1, 33))


def test_blocks() -> None:
    """A head without a timestamp has neither time nor latency, a payload no origin."""
    meter = Meter("l1")
    show_l1_block(meter, "l1_head", L1BlockRef(HASH, 7, HASH, 1000))
    text = meter.text().decode()
    assert 'refs_number{layer="l1",type="l1_head"} 7.0' in text
    assert 'refs_time{layer="l1",type="l1_head"} 1000.0' in text
    assert f'refs_hash{{layer="l1",type="l1_head"}} {float(int.from_bytes(HASH[:8], "little"))!r}' in text
    assert 'refs_latency{layer="l1",type="l1_head"} -' in text
    meter = Meter("engine")
    show_head(meter, "l2_safe", L2BlockRef(HASH, 7, HASH, 0, BlockId(3, HASH), 2))
    text = meter.text().decode()
    assert 'refs_number{layer="l1_origin",type="l2_safe"} 3.0' in text and 'refs_seqnr{type="l2_safe"} 2.0' in text
    assert "refs_time{" not in text and "refs_latency{" not in text
    meter = Meter("engine")
    show_payload(meter, "received_payload", block(timestamp=1002))
    text = meter.text().decode()
    assert 'refs_number{layer="l2",type="received_payload"} 1.0' in text
    assert 'refs_time{layer="l2",type="received_payload"} 1002.0' in text and "l1_origin" not in text
