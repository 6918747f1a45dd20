"""The displays of a running network."""

import sys
import time

import pytest
from rich.console import Console

from rollup_node.tools.devnet import view
from rollup_node.tools.devnet.status import NetworkStatus, NodeHeads, ProcessUsage
from rollup_node.tools.devnet.view import LineView, LiveView, SilentView, choose

STATUS = NetworkStatus(
    l1_head=30,
    nodes={"sequencer": NodeHeads(9, 7, 5, 2), "verifier": None},
    batches={"channels": 4, "blobs": 3},
    processes={"sequencer": [ProcessUsage("l1", 123, 2, 40.4), ProcessUsage("engine", 124, 1, 60.0)], "verifier": []},
)


def test_the_display_fits_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(choose(True, None), SilentView)
    assert isinstance(choose(False, None), LineView)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    live = choose(False, 5)
    assert isinstance(live, LiveView)
    live.close()


def test_lines_name_the_leading_sequencer(capsys: pytest.CaptureFixture[str]) -> None:
    LineView(None).show(NetworkStatus(l1_head=1, leader="sequencer-2"))
    assert capsys.readouterr().out == "L1 1  leader sequencer-2  batches 0 blobs 0\n"


def test_lines_have_all_heads(capsys: pytest.CaptureFixture[str]) -> None:
    lines = LineView(30)
    lines.message("starting")
    lines.show(STATUS)
    lines.show(STATUS)
    lines.close()
    assert capsys.readouterr().out.splitlines() == [
        "starting",
        "L1 30  sequencer unsafe/safe/finalized 9/7/5 peers 2  verifier unsafe/safe/finalized starting  "
        "batches 4 blobs 3  of 30",
    ]


def test_lines_come_every_two_seconds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 10.0, 11.0, 12.5, 12.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    lines = LineView(None)
    for _ in range(3):
        lines.show(NetworkStatus())
    assert capsys.readouterr().out.count("L1 starting") == 2


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    silent = SilentView()
    silent.message("starting")
    silent.show(STATUS)
    silent.close()
    assert capsys.readouterr().out == ""


def test_the_live_table_has_heads_processes_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, force_terminal=True, width=100, height=60)
    monkeypatch.setattr(view, "Console", lambda: console)
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
    monkeypatch.setattr(view, "Console", lambda: console)
    live = LiveView(None)
    live.show(NetworkStatus(nodes={"sequencer": NodeHeads(9, 7, 5, 2)}))
    live.close()
    assert "safe on all nodes: 7 (Ctrl-C to stop)" in console.export_text()
