"""The ping service: echoes pings, and measures the latency of connected peers [NET6]."""

import asyncio
import os
from typing import TYPE_CHECKING

from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.p2p.addresses.peer_id import PeerId, short_peer_id
from rollup_node.stages.p2p.host.io.host_api import StreamError
from rollup_node.stages.p2p.host.io.streams import Stream

if TYPE_CHECKING:
    from rollup_node.stages.p2p.host.io.host import Host

PROTOCOL = "/ipfs/ping/1.0.0"
PING_BYTES = 32
_TIMEOUT = 10.0
_SMOOTHING = 0.1
_ECHO_IDLE_SECONDS = 60.0

log = get_logger("p2p")


class PingService:
    def __init__(self, host: "Host") -> None:
        self._host = host
        self._latencies: dict[PeerId, float] = {}

    def register(self) -> None:
        self._host.set_stream_handler(PROTOCOL, self._echo)

    def latency(self, peer: PeerId) -> float | None:
        """Return the average round-trip time of a connected peer in seconds; None if it was not measured."""
        return self._latencies.get(peer)

    def remove_peer(self, peer: PeerId) -> None:
        self._latencies.pop(peer, None)

    async def ping(self, peer: PeerId) -> float:
        """One round-trip time in seconds. Raises StreamError without a correct reply in time."""
        payload = os.urandom(PING_BYTES)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_TIMEOUT):
                _, stream = await self._host.open_stream(peer, (PROTOCOL,))
                try:
                    sent_at = loop.time()
                    await stream.write(payload)
                    reply = await stream.read_exactly(PING_BYTES)
                    seconds = loop.time() - sent_at
                finally:
                    stream.reset()
        except TimeoutError:
            raise StreamError(f"no reply to a ping within {_TIMEOUT:g} s") from None
        if reply != payload:
            raise StreamError("wrong reply to a ping")
        self.add_latency(peer, seconds)
        return seconds

    def add_latency(self, peer: PeerId, seconds: float) -> None:
        """Add a round-trip time to the moving average of a peer."""
        average = self._latencies.get(peer, seconds)
        self._latencies[peer] = average + _SMOOTHING * (seconds - average)

    async def measure_latency(self, peer: PeerId) -> None:
        """Pings a peer to update its latency; a failure is logged only."""
        try:
            seconds = await self.ping(peer)
            log.trace("ping", peer=short_peer_id(peer), milliseconds=round(seconds * 1e3, 1))
        except StreamError as error:
            log.debug("ping failed", peer=short_peer_id(peer), error=str(error))

    async def _echo(self, stream: Stream) -> None:
        while True:
            async with asyncio.timeout(_ECHO_IDLE_SECONDS):
                data = await stream.read(PING_BYTES)
                if not data:
                    return
                if len(data) < PING_BYTES:
                    data += await stream.read_exactly(PING_BYTES - len(data))
                await stream.write(data)
