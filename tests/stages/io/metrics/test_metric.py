"""Rows of the metric tables."""

from rollup_node.stages.io.metrics.metric import ExposedMetric, Metric, MetricType


def test_an_event_is_two_metrics() -> None:
    event = Metric("resets", MetricType.EVENT, "Resets", ("type",))
    assert list(event.exposed()) == [
        ExposedMetric("op_node_default_resets_total", "counter", ("type",), "Resets"),
        ExposedMetric("op_node_default_last_resets_unix", "gauge", ("type",), "Resets: Unix time of the last"),
    ]


def test_other_types_are_one() -> None:
    up = Metric("process_up", MetricType.GAUGE, "Up", prefix="")
    assert list(up.exposed()) == [ExposedMetric("process_up", "gauge", (), "Up")]
