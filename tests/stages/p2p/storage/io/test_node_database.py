"""The database of nodes and of our own record, over restarts."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from rollup_node.stages.p2p.storage.io import node_database
from rollup_node.stages.p2p.storage.io.node_database import NODE_TTL, NodeDatabase
from tests.support.p2p.discv5_nodes import record_of
from tests.support.timing.manual_clock import ManualClock

ONE, TWO = record_of("one"), record_of("two")


def test_nodes_and_our_record_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "nodes")
    store = NodeDatabase(path)
    store.update_nodes([ONE, TWO], [])
    store.save_local_enr(record_of("own"))
    store.close()
    reopened = NodeDatabase(path)
    assert set(reopened.nodes()) == {ONE, TWO}
    assert reopened.local_enr(record_of("own").node_id) == record_of("own")
    assert reopened.local_enr(ONE.node_id) is None
    reopened.update_nodes([record_of("one", seq=2)], [TWO.node_id])
    assert reopened.nodes() == [record_of("one", seq=2)]
    reopened.save_local_enr(record_of("own", seq=2))
    own = reopened.local_enr(record_of("own").node_id)
    assert own is not None and own.seq == 2
    reopened.close()


def test_old_and_excess_nodes_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_database, "MAX_NODES", 3)
    clock = ManualClock(1000.0)
    store = NodeDatabase(clock=clock)
    for number in range(6):
        clock.now += 1
        store.update_nodes([record_of(number)], [])
    assert store.nodes() == [record_of(5), record_of(4), record_of(3)]
    clock.now += NODE_TTL - 1
    store.update_nodes([ONE], [])
    assert store.nodes() == [ONE, record_of(5), record_of(4)]
    clock.now += 10
    assert store.nodes() == [ONE]
    store.close()


def test_damaged_records_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    NodeDatabase(str(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("insert into nodes values (?, ?, ?)", (b"x", b"damaged", 1e12))
        file.execute("insert into nodes values (?, ?, ?)", (b"y", 5, 1e12))
    store = NodeDatabase(str(path))
    store.update_nodes([ONE], [])
    assert store.nodes() == [ONE] and store.problem is None
    store.close()
