"""The rpc stage as the runtime uses it."""

import socket

from rollup_node.stages.messages.engine import Halting
from rollup_node.stages.protocol.errors import ResetError
from tests.support.rpc_harness import RpcHarness, RunWithRpc


def test_the_metrics_server_runs_only_if_enabled(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        assert rpc.stage.metrics is None
        assert rpc.stage.rpc.port != 0

    with_rpc(scenario)


def test_a_node_that_halts_serves_its_metrics_alone(with_rpc: RunWithRpc) -> None:
    """[PRV6]"""

    async def scenario(rpc: RpcHarness) -> None:
        await rpc.until_ready()
        assert rpc.stage.metrics is not None
        ports = rpc.stage.rpc.port, rpc.stage.metrics.port
        rpc.status["engine"].set(Halting())
        await rpc.until(lambda: not is_open(ports[0]))
        assert is_open(ports[1])

    with_rpc(scenario, metrics_enabled=True)


def is_open(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_resets_and_reports_change_nothing(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        rpc.stage.reset(ResetError("reorg"))
        rpc.stage.report(("l1: away",))
        assert await rpc.call("optimism_version") == "v1.2.3-dev"
        assert list(rpc.stage.periodic_tasks) == []

    with_rpc(scenario)
