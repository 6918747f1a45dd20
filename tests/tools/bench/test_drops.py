"""The benchmark of drops drops what it says, and nothing else."""

import pytest

from rollup_node.tools.bench.drops import FLOODS, Flood, FloodRun

LABELS = {
    "unknown channel": "CA4 frame_without_channel",
    "other channel": "CA5 frame_of_other_channel",
    "repeated frames": "Q3b frame_out_of_order",
    "abandoned channels": "Q3c frame_of_unclosed_channel",
    "malformed items": "P2 frames_version_unknown",
    "past batches": "V3 timestamp_past",
    "refused batches": "BE6 span_transaction_invalid",
    "repeated frames before Holocene": "CB9.2 frame_duplicate",
    "closed channel before Holocene": "CB9.3 frame_beyond_end",
    "past batches before Holocene": "V3 timestamp_past",
}


@pytest.mark.parametrize("flood", FLOODS, ids=[flood.name for flood in FLOODS])
def test_each_flood_is_dropped_for_one_reason(flood: Flood) -> None:
    run = FloodRun(flood, 300)
    assert run.seconds() > 0
    ((label, count),) = run.drops.items()
    assert label == LABELS[flood.name]
    assert 298 <= count <= 305
