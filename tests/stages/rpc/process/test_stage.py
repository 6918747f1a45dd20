"""The rpc stage as the runtime uses it."""

from rollup_node.stages.protocol.errors import ResetError
from tests.support.rpc_harness import RpcHarness, RunWithRpc


def test_the_metrics_server_runs_only_if_enabled(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        assert rpc.stage.metrics is None
        assert rpc.stage.rpc.port != 0

    with_rpc(scenario)


def test_resets_and_reports_change_nothing(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        rpc.stage.reset(ResetError("reorg"))
        rpc.stage.report(("l1: away",))
        assert await rpc.call("optimism_version") == "v1.2.3-dev"
        assert list(rpc.stage.periodic_tasks) == []

    with_rpc(scenario)
