"""The rpc process: JSON-RPC, health, readiness, metrics and profiles. It keeps no state that a restart would lose."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.profiling.profile import MAX_SECONDS
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.io.task import Stage
from rollup_node.stages.rpc.config import RpcProcessConfig
from rollup_node.stages.rpc.connections import Limits
from rollup_node.stages.rpc.process.http_server import RpcServer
from rollup_node.stages.rpc.process.interop_server import InteropClient, InteropRpcServer
from rollup_node.stages.rpc.process.listener import Handler, Listener, free_descriptors
from rollup_node.stages.rpc.process.methods import SUPERNODE_METHODS, enabled_methods
from rollup_node.stages.rpc.process.metrics_server import MetricsServer, process_names
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.process.pprof_server import ANSWER_SECONDS, PprofServer
from rollup_node.stages.rpc.process.status_server import ChainsPage, StatusServer
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.process.status_watch import DiskMetrics, ProgressLog, StatusMetrics
from rollup_node.stages.rpc.process.supernode import Supernode, SupernodeStatus, route
from rollup_node.stages.rpc.process.websocket import SessionServer, WebSocketRpcServer

RPC_LIMITS = Limits(connections=512, per_address=256, held_bytes=32 << 20)
METRICS_LIMITS = Limits(connections=64, per_address=32, held_bytes=8 << 20)
PPROF_LIMITS = Limits(
    connections=16, per_address=8, held_bytes=32 << 20, response_seconds=MAX_SECONDS + ANSWER_SECONDS + 30
)

STATUS_LIMITS = Limits(connections=32, per_address=32, held_bytes=8 << 20)
INTEROP_LIMITS = Limits(connections=16, per_address=8, held_bytes=32 << 20)


class RpcStage(Stage):
    """Serves until it is closed; `servers` are by the names of their options."""

    def __init__(self, process_config: RpcProcessConfig, bus: Bus, meter: Meter) -> None:
        config = next(iter(process_config.chains.values()))
        chains = process_config.chains.items()
        rounds = RequestClient(bus, "interop.rounds") if any(of_chain.verified for _, of_chain in chains) else None
        self.nodes = {
            group: NodeView(of_chain, bus.within(group), rounds if of_chain.verified else None)
            for group, of_chain in chains
        }
        statuses = {group: StatusSource(node) for group, node in self.nodes.items()}
        self.node, status = next(iter(self.nodes.values())), next(iter(statuses.values()))
        tasks = [
            ProgressLog(statuses[group], finds_peers=node.config.finds_peers, chain=group).periodic_task
            for group, node in self.nodes.items()
        ]
        descriptors = free_descriptors()
        self.servers: dict[str, Listener] = {}
        self.streams: list[SessionServer[Any] | StatusServer] = []

        def serve(name: str, handler: Handler, addr: str, port: int, limits: Limits, share: float) -> None:
            self.servers[name] = Listener(handler, name, addr, port, limits.within(int(descriptors * share)), meter)

        all_statuses = SupernodeStatus(statuses)
        serve("rpc", self._rpc_handler(statuses, all_statuses, meter), config.addr, config.port, RPC_LIMITS, 0.8)
        self.rpc = self.servers["rpc"]
        if config.metrics_enabled:
            for group, node in self.nodes.items():
                of_chain = meter.of_chain(group)
                metrics = (StatusMetrics(statuses[group], of_chain), DiskMetrics(node.config.databases, of_chain))
                tasks += [part.periodic_task for part in metrics]
            merged = MetricsServer(config.metrics_dir).handle
            serve("metrics", merged, config.metrics_addr, config.metrics_port, METRICS_LIMITS, 0.2)
        if config.pprof_enabled:
            profiles = PprofServer(config.pprof_dir, lambda: process_names(Path(config.metrics_dir)))
            serve("pprof", profiles.handle, config.pprof_addr, config.pprof_port, PPROF_LIMITS, 0.2)
        if config.status_enabled:
            status_pages = {group: StatusServer(source, config.vhosts) for group, source in statuses.items()}
            self.streams += status_pages.values()
            tasks += [page.periodic_task for page in status_pages.values()]
            pages = {group: page.handle for group, page in status_pages.items()}
            show = pages.get("") or route(ChainsPage(statuses, all_statuses.json, config.vhosts).handle, pages)
            serve("status", show, config.status_addr, config.status_port, STATUS_LIMITS, 0.1)
        if config.interop_addr:
            client = InteropClient(bus)
            tasks.append(client.periodic_task)
            interop = InteropRpcServer(self.node, status, client, config.interop_jwt, meter)
            self.streams.append(interop)
            serve("interop.rpc", interop.handle, config.interop_addr, config.interop_port, INTEROP_LIMITS, 0.2)
        self.periodic_tasks = tuple(tasks)
        if "" in self.nodes:
            self.node.on_halt = self._halt
        self._closing: asyncio.Task[None] | None = None

    def _rpc_handler(
        self, statuses: Mapping[str, StatusSource], all_statuses: SupernodeStatus, meter: Meter
    ) -> Handler:
        """Return what answers at the RPC server: the only chain, or each of several at its path [SNO7]."""
        handlers: dict[str, Handler] = {}
        for group, node in self.nodes.items():
            server = RpcServer(node, statuses[group], meter, enabled_methods(node.config), "main")
            handlers[group] = server.handle
            if self.node.config.ws_enabled:
                websocket = WebSocketRpcServer(server, node)
                self.streams.append(websocket)
                handlers[group] = websocket.handle
        if "" in handlers:
            return handlers[""]
        supernode = Supernode({int(group): node for group, node in self.nodes.items()})
        root = RpcServer(supernode, all_statuses, meter, SUPERNODE_METHODS, "main")
        return route(root.handle, handlers)

    async def start(self) -> None:
        """Start to listen. Raises CriticalError where a port cannot be bound."""
        for name, server in self.servers.items():
            await server.start()
            if name == "rpc" and self.node.config.url_file:
                # Without the runtime directory the node goes on; `rollup-node health` then needs --rpc.
                with suppress(OSError):
                    replace_private_file(Path(self.node.config.url_file), self.rpc.local_url.encode())

    async def close(self) -> None:
        for stream in self.streams:
            await stream.close()
        if self._closing is not None:
            await self._closing
        for server in self.servers.values():
            if server is not self.rpc or self._closing is None:
                await server.close()

    def _halt(self) -> None:
        """Close the RPC server when the node halts; the metrics are still served [PRV6]."""
        if self._closing is None:
            self._closing = asyncio.create_task(self.rpc.close())


build = RpcStage
