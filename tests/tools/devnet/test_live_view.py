"""The live table of a running network."""

import pytest
from rich.console import Console

from rollup_node.tools.devnet import live_view
from rollup_node.tools.devnet.live_view import LiveView
from rollup_node.tools.devnet.status import NetworkStatus, NodeHeads, ProcessUsage

STATUS = NetworkStatus(
    l1_head=30,
    nodes={"sequencer": NodeHeads(9, 7, 5, 2), "verifier": None},
    batches={"channels": 4, "blobs": 3},
    processes={"sequencer": [ProcessUsage("l1", 123, 2, 40.4), ProcessUsage("engine", 124, 1, 60.0)], "verifier": []},
)


def test_the_live_table_has_heads_processes_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, force_terminal=True, width=100, height=60)
    monkeypatch.setattr(live_view, "Console", lambda: console)
    live = LiveView(30)
    live.message("starting")
    live.show(STATUS)
    live.close()
    text = console.export_text()
    for part in ("starting", "L1 head 30", "sequencer", "4 channels posted, 3 blobs", "123", "2x", "total", "100"):
        assert part in text, part
    assert "0 of 30 blocks safe on all nodes" in text


def test_without_a_target_there_is_no_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, force_terminal=True, width=100)
    monkeypatch.setattr(live_view, "Console", lambda: console)
    live = LiveView(None)
    live.show(NetworkStatus(nodes={"sequencer": NodeHeads(9, 7, 5, 2)}))
    live.close()
    assert "safe on all nodes: 7 (Ctrl-C to stop)" in console.export_text()
