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


def test_lines_have_all_heads_every_two_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([10.0, 10.0, 11.0, 12.5, 12.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    lines = LineView(30)
    lines.message("starting")
    for status in (STATUS, STATUS, NetworkStatus(l1_head=31, leader="sequencer-2")):
        lines.show(status)
    lines.close()
    assert capsys.readouterr().out.splitlines() == [
        "starting",
        "L1 30  sequencer unsafe/safe/finalized 9/7/5 peers 2  verifier unsafe/safe/finalized starting  "
        "batches 4 blobs 3  of 30",
        "L1 31  leader sequencer-2  batches 0 blobs 0  of 30",
    ]


ROLES = ("supervisor", "sweeper", "l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc")


@pytest.mark.parametrize(("nodes", "copies"), [(2, 1), (2, 6), (4, 1), (4, 6), (1, 30)])
def test_all_processes_have_room_on_a_small_screen(monkeypatch: pytest.MonkeyPatch, nodes: int, copies: int) -> None:
    console = Console(record=True, force_terminal=True, width=80, height=24)
    monkeypatch.setattr(view, "Console", lambda: console)
    live = LiveView(30)
    names = ["sequencer", "sequencer-2", "sequencer-3", "verifier"][:nodes]
    roles = [role for role in ROLES for _ in range(copies if role == "compute" else 1)]
    processes = {name: [ProcessUsage(role, 10000, 1, 33) for role in roles] for name in names}
    live.show(NetworkStatus(7, dict.fromkeys(names, NodeHeads(9, 7, 5, 2)), {}, processes, leader="sequencer"))
    live.close()
    lines = console.export_text().rstrip("\n").split("\n")
    assert len(lines) < 24 and max(map(len, lines)) <= 80 and not [line for line in lines if "…" in line]
    for role in ROLES:
        (*_, row) = (line for line in lines if line.split()[:1] == [role])
        assert row.count("x ") >= nodes
    (total,) = (line for line in lines if line.split()[:1] == ["total"])
    assert total.split()[1:] == [str(33 * len(roles))] * nodes
    assert lines[-1].endswith("7 of 30 blocks safe on all nodes")


@pytest.mark.parametrize(
    ("target", "progress"), [(30, "0 of 30 blocks safe on all nodes"), (None, "safe on all nodes: 0 (Ctrl-C to stop)")]
)
def test_the_live_table(monkeypatch: pytest.MonkeyPatch, target: int | None, progress: str) -> None:
    console = Console(record=True, force_terminal=True, width=100, height=60)
    monkeypatch.setattr(view, "Console", lambda: console)
    live = LiveView(target)
    live.message("starting")
    live.show(STATUS)
    live.close()
    text, parts = console.export_text(), ("starting", "L1 head 30", "sequencer", "4 channels posted, 3 blobs")
    assert [part for part in (*parts, "123", "2x", "total", "100", progress) if part not in text] == []
