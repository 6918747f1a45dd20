"""Discovery servers on the loopback interface; they use the disk only with `discovery_path`."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.discv5.node import ChainNodeFound
from rollup_node.stages.p2p.peering.io.discovery_service import Discv5Server
from tests.support.p2p.discv5_nodes import secret_of
from tests.support.p2p.hosts import config
from tests.support.servers.loopback import free_port, own_address


class RecordingDiscv5Server(Discv5Server):
    """A server that records the peers it found."""

    __test__ = False

    discovered: list[ChainNodeFound]
    meter: Meter
    identity: NetworkIdentity

    def has_discovered(self) -> bool:
        """Whether it has found a peer."""
        return bool(self.discovered)

    @property
    def table_texts(self) -> set[str]:
        """The records in the table, as text."""
        return {record.text for record in self.table}


@contextlib.asynccontextmanager
async def running_discv5(name: object, *, tcp: int = 9222, **options: Any) -> AsyncIterator[RecordingDiscv5Server]:
    """Yield a server that runs until the end of the block."""
    defaults = {"listen_ip": own_address(), "listen_udp": free_port(socket.SOCK_DGRAM), "no_discovery": False}
    settings = config(**{**defaults, **options})
    assert settings.netrestrict == ("127.0.0.0/8",)
    discovered: list[ChainNodeFound] = []
    identity, meter = NetworkIdentity(secret_of(name)), Meter("p2p")
    server = await RecordingDiscv5Server.start(settings, identity, meter, tcp, discovered.append)
    server.discovered, server.meter, server.identity = discovered, meter, identity

    async def run() -> None:
        while True:
            await asyncio.sleep(await server.step())

    running = asyncio.get_running_loop().create_task(run())
    try:
        yield server
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        server.close()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def running_discv5_servers(count: int, **options: Any) -> AsyncIterator[list[RecordingDiscv5Server]]:
    """Several servers."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running_discv5(number, **options)) for number in range(count)]
