"""`rollup-node doc metrics`."""

import json

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.metrics.meter import TABLE
from rollup_node.tools.commands.doc import MISSING_METRICS, main


def test_a_row_for_each_metric(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics"]) == 0
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(lines) == sum(1 for metric in TABLE for _ in metric.exposed()) + len(MISSING_METRICS)
    row = "| `op_node_default_last_pipeline_resets_unix` | gauge |  | engine | Resets of the derivation pipeline: Unix"
    assert row in text
    assert "| `op_node_default_activity_problems` | gauge | process | each |" in text
    assert (
        "| `op_node_default_events_emitted` | counter | event_type, emitter | op-node's internal event system" in text
    )


@pytest.mark.parametrize("form", [["--json"], ["--format", "json"], ["--format=markdown", "--json"]])
def test_json(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", *form]) == 0
    result = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert result["op_node_default_derived_batches_total"] == {
        "type": "counter",
        "name": "op_node_default_derived_batches_total",
        "help": "Batches derived",
        "labels": ["type"],
        "processes": ["derivation"],
        "op_node": True,
    }
    assert result["process_up"]["op_node"] is False


def test_wrong_words() -> None:
    with pytest.raises(SetupError, match="invalid format: x; it is markdown or json"):
        main(["metrics", "--format", "x"])
    with pytest.raises(SetupError, match="there is no document 'nonsense'; the documents are: metrics"):
        main(["nonsense"])
    with pytest.raises(SetupError, match="required: metrics"):
        main([])
