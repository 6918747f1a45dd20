"""The metrics table and the meter."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rollup_node.stages.io.metrics import METRICS, TABLE, Meter, Metric, MetricType, UnknownMetricError


def series(meter: Meter) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(meter.text().decode())
        for sample in family.samples
    }


def test_names_are_unique() -> None:
    assert len(TABLE) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_every_metric_can_be_set(metric: Metric) -> None:
    meter = Meter("test")
    labels = dict.fromkeys(metric.labels, "x")
    if metric.type is MetricType.GAUGE:
        meter.set(metric.name, 2, **labels)
    elif metric.type is MetricType.HISTOGRAM:
        meter.observe(metric.name, 2, **labels)
    else:
        meter.count(metric.name, 2, **labels)
    suffix = {MetricType.HISTOGRAM: "_count", MetricType.EVENT: "_total"}.get(metric.type, "")
    expected = 1 if metric.type is MetricType.HISTOGRAM else 2
    assert series(meter)[metric.prefix + metric.name + suffix, tuple(sorted(labels.items()))] == expected


def test_an_event_records_its_time() -> None:
    meter = Meter("test")
    meter.count("pipeline_resets")
    assert series(meter)["op_node_default_last_pipeline_resets_unix", ()] > 1.7e9


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


def test_nothing_appears_before_it_is_used() -> None:
    assert Meter("test").text() == b""
