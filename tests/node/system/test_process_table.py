"""The process table."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.system.process_table import PROCESSES, load, node_processes
from rollup_node.stages.blobs.process import stage as blobs_stage
from rollup_node.stages.compute.process import stage as compute_stage
from rollup_node.stages.derivation.process import stage as derivation_stage
from rollup_node.stages.engine.process import stage as engine_stage
from rollup_node.stages.interop.process import stage as interop_stage
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import Stage
from rollup_node.stages.l1.process import stage as l1_stage
from rollup_node.stages.p2p.process import stage as p2p_stage
from rollup_node.stages.rpc.process import stage as rpc_stage
from rollup_node.stages.topology import CHANNELS

ROLES = ("l1", "blobs", "derivation", "compute", "engine", "rpc")


def test_processes_stand_in_start_order() -> None:
    specs = node_processes({"": {role: f"config of {role}" for role in ROLES}}, workers=3)
    assert tuple(spec.role for spec in specs) == ROLES
    assert [spec.copies for spec in specs] == [1, 1, 1, 3, 1, 1]
    assert [spec.config for spec in specs] == [f"config of {role}" for role in ROLES]
    assert [specs[3].name(copy) for copy in range(3)] == ["compute-0", "compute-1", "compute-2"]
    assert specs[0].name(0) == "l1"


def test_each_chain_has_processes_of_its_own_beside_the_shared_ones() -> None:
    """In the order of roles [LIF33]."""
    shared = dict.fromkeys(("l1", "blobs", "compute", "rpc"), "shared")
    chains = {chain: dict.fromkeys(("derivation", "engine", "p2p"), chain) for chain in ("10", "130")}
    specs = node_processes({"": shared, **chains}, workers=2)
    names = [spec.name(copy) for spec in specs for copy in range(spec.copies)]
    assert names == [
        *("l1", "blobs", "derivation.10", "derivation.130", "compute-0", "compute-1"),
        *("engine.10", "engine.130", "p2p.10", "p2p.130", "rpc"),
    ]
    assert all(spec.config == (spec.group or "shared") for spec in specs)


def test_channels_connect_exactly_these_roles() -> None:
    connected = {role for channel in CHANNELS for role in (channel.server, *channel.clients)}
    assert connected == {template.role for template in PROCESSES}


def test_every_stage_is_what_the_runtime_runs() -> None:
    """mypy checks the builders: each returns a Stage."""
    builders: dict[str, Callable[[Any, Bus, Meter], Stage]] = {
        "l1": l1_stage.build,
        "blobs": blobs_stage.build,
        "derivation": derivation_stage.build,
        "compute": compute_stage.build,
        "engine": engine_stage.build,
        "interop": interop_stage.build,
        "p2p": p2p_stage.build,
        "rpc": rpc_stage.build,
    }
    assert {template.role: load(template.build) for template in PROCESSES} == builders


def test_what_processes_load_is_installed() -> None:
    modules = {module for template in PROCESSES for module in template.preload}
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []


def test_an_import_path_names_a_function() -> None:
    assert load("json:dumps")([1]) == "[1]"
    with pytest.raises(AttributeError):
        load("json:absent")
