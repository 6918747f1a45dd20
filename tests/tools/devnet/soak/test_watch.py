"""The watch over the nodes of a soak."""

import os
from pathlib import Path

import pytest

from rollup_node.tools.devnet.soak import watch as watches
from rollup_node.tools.devnet.soak.family import Usage
from rollup_node.tools.devnet.soak.lanes import Process
from rollup_node.tools.devnet.soak.schedule import ROLES
from rollup_node.tools.devnet.soak.watch import MAX_LINES, TOOL, NodeWatch, Watch


def watched(monkeypatch: pytest.MonkeyPatch, log: Path | None, *usages: Usage) -> NodeWatch:
    """A node that used this, a sample a minute."""
    given = iter(usages)
    monkeypatch.setattr(watches, "usage", lambda pids: next(given))
    node = NodeWatch(log)
    for minute, _ in enumerate(usages):
        node.sample([])
        node.minute("1", 60.0 * minute, "verifier")
    return node


def test_flat_figures_are_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    node = watched(monkeypatch, None, *(Usage(300.0 + index % 3, 200, 8, 9) for index in range(40)))
    assert list(node.problems("verifier")) == []
    found = node.trend()
    assert found.memory == (301.0, 301.0) and found.descriptors == (200, 200) and found.segments == (8, 8)


def test_growing_figures_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    node = watched(monkeypatch, None, *(Usage(100.0 + 2 * at, 100 + at, 8 + at, 9) for at in range(100)))
    assert list(node.problems("verifier")) == [
        "verifier: 141 MB of memory in the first quarter, 277 in the last",
        "verifier: 120 descriptors in the first quarter, 188 in the last",
        "verifier: 28 shared memory segments in the first quarter, 96 in the last",
    ]


def test_lines_of_log_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("line\n" * (MAX_LINES + 1))
    node = watched(monkeypatch, log, Usage(1.0, 1, 1, 9))
    assert list(node.problems("verifier")) == [f"verifier: {MAX_LINES + 1} lines of log in a minute, more than 1500"]
    assert node.trend().most_lines == MAX_LINES + 1


def test_a_minute_is_the_median_of_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter([Usage(100.0, 10, 1, 9), Usage(900.0, 90, 9, 9), Usage(120.0, 12, 2, 9)])
    monkeypatch.setattr(watches, "usage", lambda pids: next(given))
    node = NodeWatch(None)
    for _ in range(3):
        node.sample([])
    found = node.minute("1", 60.0, "verifier")
    assert (found.memory, found.descriptors, found.segments, found.processes) == (120.0, 12, 2, 9)
    assert node.minute("1", 120.0, "verifier").memory == 0.0


def test_nodes_that_start_do_not_count_and_what_is_left_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    processes = {role: Process(os.getpid(), 1) for role in ROLES}
    problems: list[str] = []
    watch = Watch({"verifier": log}, lambda node: processes, lambda: [], problems.append)
    monkeypatch.setattr(watch._family, "check", lambda known: ["process 5 (x) outlives its parent"])
    watch.sample()
    assert problems == ["process 5 (x) outlives its parent"] and watch.load >= 0
    minutes = {each.node: each for each in watch.minute("1", 60.0)}
    assert minutes["verifier"].processes == len(ROLES) and minutes["verifier"].lines == 1
    assert minutes[TOOL].processes == 1
    monkeypatch.setattr(watches, "shared_files", lambda pids: {str(log), str(tmp_path / "gone")})
    assert watch.left_files() == []
    del processes["rpc"]
    watch.sample()
    assert {each.node: each.processes for each in watch.minute("1", 120.0)} == {"verifier": 0, TOOL: 1}
    assert watch.left_files() == [str(log)]
