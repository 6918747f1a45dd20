"""Metrics of all processes on any path [MET1]."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from rollup_node.stages.io.metrics.meter import LABELLED_FAMILIES, Meter
from rollup_node.stages.rpc.process import metrics_server
from rollup_node.stages.rpc.process.metrics_server import _EXEMPLAR, merge_expositions, open_metrics
from tests.support.rpc.harness import RunWithRpc


@pytest.mark.option("metrics.enabled")
async def test_metrics_on_any_path(running_rpc: RunWithRpc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scrapes within a second share one text."""
    name = "op_node_default_activity_problems"
    (tmp_path / "engine.prom").write_text(f"# HELP {name} A\n# TYPE {name} gauge\n{name} 3\na_total 2\n")
    (tmp_path / "l1.prom").write_text(f"{name} 1\n")
    (tmp_path / "broken.prom").write_bytes(b"\xff\xfe")
    async with running_rpc(metrics_enabled=True) as rpc:
        for path, kept, count in (("/", 0.0, 1), ("/metrics", 3600.0, 1), ("/x/y", 0.0, 2)):
            monkeypatch.setattr(metrics_server, "KEPT_SECONDS", kept)
            async with rpc.http.get(rpc.stage.servers["metrics"].local_url + path) as response:
                assert response.status == 200
                assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                text = await response.text()
            assert f'{name}{{process="engine"}} 3' in text and f'{name}{{process="l1"}} {count}' in text
            assert "\na_total 2\n" in text
            (tmp_path / "l1.prom").write_text(f"{name} 2\n")


DIFF = "op_node_default_sequencer_building_diff_seconds"


def values(sample: Sample) -> tuple[object, ...]:
    """Return what a sample says; the parser of texts adds `_total` to counters of op-node that lack it."""
    return sample.name.removesuffix("_total"), *sample.labels.items(), repr(sample.value)


def merged(*meters: Meter) -> str:
    return merge_expositions({meter.process: meter.text().decode() for meter in meters}, LABELLED_FAMILIES)


def test_every_family_is_valid_open_metrics() -> None:
    """[MET31] By a strict parser; names and values are those of the text format."""
    meters = [Meter(role) for role in ("l1", "blobs", "derivation", "compute", "engine", "interop", "p2p", "rpc")]
    for meter in meters:
        meter.expose(meter.process)
    meters[-1].observe("rpc_server_request_duration_seconds", 0.003, b"\xab" * 16, rpc="main", method="m")
    text = merged(*meters)
    families = list(open_metrics_families(open_metrics(text)))  # type: ignore[no-untyped-call]
    samples = [sample for family in families for sample in family.samples]
    plain = [sample for family in text_string_to_metric_families(_EXEMPLAR.sub("", text)) for sample in family.samples]
    without = {values(one) for one in plain} - {values(one) for one in samples}
    assert {name for name, *_ in without} == {f"{DIFF}_sum", f"{DIFF}_count"}, "of what may be negative"
    assert {values(one) for one in samples} < {values(one) for one in plain}
    assert {"unknown", "counter", "gauge", "histogram"} <= {family.type for family in families}
    (exemplar,) = (sample.exemplar for sample in samples if sample.exemplar is not None)
    assert (exemplar.labels, exemplar.value) == ({"trace_id": "ab" * 16}, 0.003)


async def test_exemplars_are_for_scrapes_that_take_them(
    running_rpc: RunWithRpc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[MET31]"""
    monkeypatch.setattr(metrics_server, "KEPT_SECONDS", 0.0)
    takes = {"Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"}
    meter = Meter("rpc")
    async with running_rpc(metrics_enabled=True) as rpc:
        url, forms = rpc.stage.servers["metrics"].local_url, []
        for trace in (b"", b"\xab" * 16):
            meter.observe("rpc_server_request_duration_seconds", 0.003, trace, rpc="main", method="m")
            (tmp_path / "rpc.prom").write_bytes(meter.text())
            for headers in (takes, {}):
                async with rpc.http.get(url, headers=headers) as response:
                    text = await response.text()
                    forms.append((response.headers["Content-Type"].partition(";")[0], "trace_id" in text))
                    assert text.endswith("# EOF\n") is forms[-1][1]
    plain = ("text/plain", False)
    assert forms == [plain, plain, ("application/openmetrics-text", True), plain]


Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(text: str) -> Series:
    """All samples; the test fails when one is there twice, or a family comes in two pieces."""
    result: Series = {}
    families = [family for family in text_string_to_metric_families(text)]
    assert len({family.name for family in families}) == len(families)
    for family in families:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in result
            result[key] = sample.value
    return result


def test_a_sample_that_names_a_process_keeps_it() -> None:
    meter = Meter("supervisor")
    meter.set("process_up", 1, process="l1")
    meter.set("up", 1)
    labelled = ("process_up", "op_node_default_up")
    assert series(merge_expositions({"supervisor": meter.text().decode()}, labelled)) == {
        ("process_up", (("process", "l1"),)): 1,
        ("op_node_default_up", (("process", "supervisor"),)): 1,
    }


def test_what_one_process_counts_keeps_its_labels() -> None:
    l1, engine = Meter("l1"), Meter("engine")
    for meter in (l1, engine):
        meter.expose(meter.process)
    engine.set("refs_number", 7, layer="l2", type="l2_safe")
    texts = {"l1": l1.text().decode(), "engine": engine.text().decode()}
    result = series(merge_expositions(texts, LABELLED_FAMILIES))
    prefix = "op_node_default_"
    assert result[f"{prefix}refs_number", (("layer", "l2"), ("type", "l2_safe"))] == 7
    assert result[f"{prefix}pipeline_resets_total", ()] == 0
    problems = {labels for name, labels in result if name == f"{prefix}activity_problems"}
    assert problems == {(("process", "l1"),), (("process", "engine"),)}


def test_lines_that_are_no_samples_are_left_out() -> None:
    assert merge_expositions({}, ()) == merge_expositions({"l1": ""}, ()) == ""
    merged = merge_expositions({"l1": "# a comment\n#\n\n}{\n0x\nup 1\nbare{} 2\n"}, ("up", "bare"))
    assert merged == 'up{process="l1"} 1\nbare{process="l1"} 2\n'


@settings(max_examples=25)
@example([('odd "{name}",process="', 2.0)])
@given(st.lists(st.tuples(st.text(max_size=8), st.floats(allow_nan=False)), max_size=3))
def test_any_label_text_survives(labels: list[tuple[str, float]]) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("g", "a gauge", ["who"], registry=registry)
    counter = Counter("c", "a counter", ["who"], registry=registry)
    Histogram("h", "a histogram", registry=registry).observe(1)
    for text, value in labels:
        gauge.labels(text).set(value)
        counter.labels(text).inc()
    one = generate_latest(registry).decode()
    plain = series(one)
    merged = merge_expositions({"a": one, "b": one}, ("g", "c_total", "h"))
    assert merged.count("# TYPE h histogram\n") == 1
    assert series(merged) == {
        (name, tuple(sorted((*labels, ("process", process))))): value
        for (name, labels), value in plain.items()
        for process in ("a", "b")
    }
