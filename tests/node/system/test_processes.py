"""The process table."""

import importlib.util

import pytest

from rollup_node.node.system.processes import PROCESSES, Row, load, node_rows
from rollup_node.stages.topology import CHANNELS

ROLES = ("l1", "blobs", "derivation", "compute", "engine", "rpc")


def test_the_rows_stand_in_start_order() -> None:
    rows = node_rows({role: f"config of {role}" for role in ROLES}, workers=3)
    assert tuple(row.role for row in rows) == ROLES
    assert [row.copies for row in rows] == [1, 1, 1, 3, 1, 1]
    assert [row.config for row in rows] == [f"config of {role}" for role in ROLES]
    assert [rows[3].name(copy) for copy in range(3)] == ["compute-0", "compute-1", "compute-2"]
    assert rows[0].name(0) == "l1"


def test_the_peer_to_peer_row_comes_after_the_engine_if_there_is_one() -> None:
    rows = node_rows({role: None for role in (*ROLES, "p2p")}, workers=1)
    assert [row.role for row in rows][4:] == ["engine", "p2p", "rpc"]
    with pytest.raises(ValueError):
        node_rows({role: None for role in (*ROLES, "another")}, workers=1)


def test_every_config_is_needed() -> None:
    with pytest.raises(ValueError, match="configs are needed for l1, blobs, derivation, compute, engine, rpc"):
        node_rows({"l1": None}, workers=1)


def test_the_channel_table_knows_these_roles_and_no_others() -> None:
    talking = {role for channel in CHANNELS for role in (channel.server, *channel.clients)}
    assert talking == {kind.role for kind in PROCESSES}


@pytest.mark.parametrize("kind", PROCESSES, ids=lambda kind: kind.role)
def test_what_a_row_loads_is_there(kind: object) -> None:
    for module in kind.preload:  # type: ignore[attr-defined]
        assert importlib.util.find_spec(module) is not None
    if kind.prepare:  # type: ignore[attr-defined]
        assert callable(load(kind.prepare))  # type: ignore[attr-defined]


def test_an_import_path_names_a_function() -> None:
    assert load("json:dumps")([1]) == "[1]"
    with pytest.raises(AttributeError):
        load("json:absent")


def test_a_row_is_named_by_copy_only_when_numbered() -> None:
    assert Row("x", "m:f", None, copies=2, numbered=True).name(1) == "x-1"
    assert Row("x", "m:f", None).name(0) == "x"
