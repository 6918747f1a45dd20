"""`rollup-node doc metrics`."""

import pytest

from rollup_node.stages.io.metrics.meter import TABLE
from rollup_node.tools.commands.doc import MISSING_METRICS
from tests.support.processes.cli import Cli


def test_a_row_for_each_metric(cli: Cli) -> None:
    text = cli.out("doc", "metrics")
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(lines) == sum(1 for metric in TABLE for _ in metric.exposed()) + len(MISSING_METRICS)
    for row in (
        "last_pipeline_resets_unix` | gauge |  | engine | Resets of the derivation pipeline: Unix",
        "activity_problems` | gauge | process | each |",
        "events_emitted` | counter | event_type, emitter | op-node's internal event system",
    ):
        assert f"| `op_node_default_{row}" in text


@pytest.mark.parametrize("form", [["--json"], ["--format", "json"], ["--format=markdown", "--json"]])
def test_json(form: list[str], cli: Cli) -> None:
    result = {row["name"]: row for row in cli.json("doc", "metrics", *form)}
    assert result["op_node_default_derived_batches_total"] == {
        "type": "counter",
        "name": "op_node_default_derived_batches_total",
        "help": "Batches derived",
        "labels": ["type"],
        "processes": ["derivation"],
        "op_node": True,
    }
    assert result["process_up"]["op_node"] is False
