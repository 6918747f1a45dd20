"""Hosts for tests: on the loopback interface, without discovery, nothing on disk."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, peer_id_text
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import HostEvent, PeerConnected, PeerDisconnected, PeerIdentified
from rollup_node.stages.p2p.host.io.streams import Stream
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from tests.support.timing.conditions import until

E = TypeVar("E", PeerConnected, PeerIdentified, PeerDisconnected)
ECHO = "/rollup-node/test/echo/1"
MAX_ECHO_BYTES = 16 << 20


def config(**options: Any) -> P2pConfig:
    """Options that keep a host on the loopback interface."""
    defaults: dict[str, Any] = {
        "rollup": find_network("op-sepolia").config,
        "listen_ip": "127.0.0.1",
        "listen_tcp": 0,
        "no_discovery": True,
        "netrestrict": ("127.0.0.0/8",),
    }
    return P2pConfig(**{**defaults, **options})


class RecordingHost(Host):
    """A host that records its events."""

    __test__ = False

    def __init__(self, number: int, **options: Any) -> None:
        super().__init__(config(**options), NetworkIdentity(bytes([number]) * 32), PeerStore(), Meter("p2p"))
        self.events: list[HostEvent] = []
        self.subscribe(self.events.append)

    @property
    def multiaddr(self) -> str:
        """Its whole multiaddr."""
        return f"/ip4/127.0.0.1/tcp/{self.port}/p2p/{peer_id_text(self.peer_id)}"

    async def wait_for(self, kind: type[E], seconds: float = 10.0) -> E:
        """Wait for the first event of a kind."""
        return await until(lambda: next((event for event in self.events if isinstance(event, kind)), None), seconds)


@contextlib.asynccontextmanager
async def running_host(number: int, **options: Any) -> AsyncIterator[RecordingHost]:
    """Yield a host that listens and echoes, and leaves no task behind."""
    host = RecordingHost(number, **options)
    host.set_stream_handler(ECHO, echo)
    await host.start()
    try:
        yield host
    finally:
        await host.stop()
        host.peerstore.close()


@contextlib.asynccontextmanager
async def two_hosts(**options: Any) -> AsyncIterator[tuple[RecordingHost, RecordingHost]]:
    """Two connected and identified hosts; no task may be left afterwards."""
    async with running_host(1, **options) as ours, running_host(2, **options) as theirs:
        await ours.connect(theirs.peer_id, theirs.addresses)
        await theirs.wait_for(PeerIdentified)
        await ours.wait_for(PeerIdentified)
        yield ours, theirs
    await until(lambda: len(asyncio.all_tasks()) == 1, 5)


async def echo(stream: Stream) -> None:
    """A handler that echoes."""
    await stream.write(await stream.read_all(MAX_ECHO_BYTES))


async def echo_through(host: Host, peer: bytes, data: bytes) -> bytes:
    """Send data to a peer and returns its echo."""
    _, stream = await host.open_stream(peer, [ECHO])

    async def send() -> None:
        await stream.write(data)
        stream.close()

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        echoed = group.create_task(stream.read_all(MAX_ECHO_BYTES))
    return echoed.result()


@contextlib.asynccontextmanager
async def running_tasks(*activities: PeriodicTask) -> AsyncIterator[None]:
    """Run periodic tasks as the runtime does; errors end the test."""

    async def run(activity: PeriodicTask) -> None:
        while True:
            delay = await activity.step()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await activity.wake.wait()
            activity.wake.clear()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(activity)) for activity in activities]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
