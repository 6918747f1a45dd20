"""The rpc process: JSON-RPC, health, readiness and metrics. It holds no state of its own."""

from collections.abc import Sequence

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.process.http_server import HttpServer, RpcServer
from rollup_node.stages.rpc.process.methods import Node
from rollup_node.stages.rpc.process.metrics_server import MetricsServer


class RpcStage:
    """Serves until it is closed; there is nothing to repeat, so it has no activities."""

    periodic_tasks: Sequence[PeriodicTask] = ()

    def __init__(self, config: RpcConfig, bus: Bus, meter: Meter) -> None:
        self.node = Node(config, bus)
        self.rpc = HttpServer(RpcServer(self.node, meter).handle, "rpc", config.addr, config.port)
        self.metrics: HttpServer | None = None
        if config.metrics_enabled:
            handler = MetricsServer(config.metrics_dir).handle
            self.metrics = HttpServer(handler, "metrics", config.metrics_addr, config.metrics_port)

    async def start(self) -> None:
        """Binds the servers."""
        await self.rpc.start()
        if self.metrics is not None:
            await self.metrics.start()

    async def close(self) -> None:
        """Ends the servers."""
        await self.rpc.close()
        if self.metrics is not None:
            await self.metrics.close()

    def reset(self, error: Exception) -> None:
        """Has nothing to reset."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Has no activities that could be in trouble."""


def build(config: RpcConfig, bus: Bus, meter: Meter) -> RpcStage:
    """Makes the stage."""
    return RpcStage(config, bus, meter)
