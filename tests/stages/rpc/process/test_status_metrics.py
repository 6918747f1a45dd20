"""The status as metrics [RPC94]."""

import asyncio
import math

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.metrics.own_metrics import STATES
from rollup_node.stages.rpc.process.status_metrics import STEP_SECONDS, StatusMetrics
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.status.node_status import BlockStatus, HeadsStatus, NodeStatus, SequencingWindow, State
from rollup_node.stages.rpc.status.readiness import ReadyLimits
from rollup_node.stages.rpc.status.status_builder import NodeFacts, Snapshot, StatusBuilder
from tests.support.rpc.harness import ROLLUP, RpcHarness, RunWithRpc

NOTHING = Snapshot(None, None, None, None, None, ())


def shown(meter: Meter) -> dict[str, float]:
    """The values by name, and the value of the only label."""
    return {
        sample.name.removeprefix("op_node_default_")
        + "".join(f" {each}" for each in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(meter.text().decode())
        for sample in family.samples
    }


def metrics_of(status: NodeStatus, source: StatusSource) -> dict[str, float]:
    meter = Meter("rpc")
    meter.expose("rpc")
    StatusMetrics(source, meter).show(status)
    return shown(meter)


def test_states_are_those_of_the_table() -> None:
    assert {state.value for state in State} == set(STATES)


def test_a_syncing_node_and_one_of_which_nothing_is_known(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        source = StatusSource(rpc.stage.node)
        facts = NodeFacts("v1", None, ROLLUP, True, ReadyLimits(0, 0, 0))
        nothing = StatusBuilder(facts).build(NOTHING, 0.0, 1000.0)
        found = metrics_of(nothing, source)
        unknown = {name for name, value in found.items() if math.isnan(value)}
        assert {
            "sync_eta_seconds",
            "sync_head_age_seconds safe",
            "sync_l1_lag_seconds",
            "sync_blocks_per_second",
        } < unknown
        assert found["sync_state starting"] == 1 and found["sync_state syncing"] == 0

        change = msgspec.structs.replace
        block = BlockStatus(7, "0x", 990, 10.5)
        syncing = change(
            nothing,
            state=State.SYNCING,
            ready=True,
            heads=HeadsStatus(block, change(block, age_s=20.0), None),
            l1=change(nothing.l1, lag_blocks=55, lag_s=660),
            progress=change(nothing.progress, blocks_per_s=2.5, eta_s=12, limited_by="blobs"),
            sequencing_window=SequencingWindow(100, 40, 60),
            l1_req_per_block=3.1,
        )
        found = metrics_of(syncing, source)
        expected = {
            "ready": 1,
            "sync_state syncing": 1,
            "sync_state starting": 0,
            "sync_limited_by blobs": 1,
            "sync_limited_by engine": 0,
            "sync_head_age_seconds unsafe": 10.5,
            "sync_head_age_seconds safe": 20,
            "sync_l1_lag_blocks": 55,
            "sync_l1_lag_seconds": 660,
            "sync_blocks_per_second": 2.5,
            "sync_eta_seconds": 12,
            "l1_requests_per_block": 3.1,
            "sequencing_window_left_blocks": 60,
        }
        assert {name: found[name] for name in expected} == expected

    with_rpc(scenario)


def test_the_task_shows_the_present_status(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        tasks = {task.name: task for task in rpc.stage.periodic_tasks}
        assert await tasks["status metrics"].step() == STEP_SECONDS
        await asyncio.sleep(0)

    with_rpc(scenario, metrics_enabled=True)
