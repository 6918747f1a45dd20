"""The ping service: echoes, and measures the latency of connected peers (node-behaviour 13.1)."""

import asyncio
import os
from typing import Protocol

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.host.host_api import HostApi, Stream, StreamError
from rollup_node.stages.p2p.host.ping import PROTOCOL, SIZE, Latency
from rollup_node.stages.p2p.identity.peer_id import PeerId, short_text

_TIMEOUT = 10.0
_SERVED_IDLE = 60.0

log = get_logger("p2p")


class PingingHost(HostApi, Protocol):
    """What this service needs of the host."""

    config: P2pConfig

    def peers(self) -> list[PeerId]:
        """All connected peers."""


class PingService:
    """See the module."""

    def __init__(self, host: PingingHost) -> None:
        self._host = host
        self._latencies: dict[PeerId, Latency] = {}

    def serve(self) -> None:
        """Registers our protocol."""
        self._host.handle(PROTOCOL, self._echo)

    def latency(self, peer: PeerId) -> float | None:
        """The average round trip of a connected peer in seconds; None if it was not measured."""
        found = self._latencies.get(peer)
        return None if found is None else found.average

    def forget(self, peer: PeerId) -> None:
        """The peer is gone."""
        self._latencies.pop(peer, None)

    async def ping(self, peer: PeerId) -> float:
        """One round trip in seconds; StreamError if there is no right answer in time."""
        payload = os.urandom(SIZE)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_TIMEOUT):
                _, stream = await self._host.open_stream(peer, (PROTOCOL,))
                try:
                    began = loop.time()
                    await stream.write(payload)
                    answer = await stream.read_exactly(SIZE)
                    seconds = loop.time() - began
                finally:
                    stream.reset()
        except TimeoutError:
            raise StreamError(f"no answer to a ping within {_TIMEOUT:g} s") from None
        if answer != payload:
            raise StreamError("a wrong answer to a ping")
        self._latencies.setdefault(peer, Latency()).add(seconds)
        return seconds

    async def measure(self, peer: PeerId) -> None:
        """Pings a peer for its latency alone."""
        try:
            seconds = await self.ping(peer)
            log.trace("pinged", peer=short_text(peer), milliseconds=round(seconds * 1e3, 1))
        except StreamError as error:
            log.debug("ping failed", peer=short_text(peer), why=str(error))

    async def _echo(self, stream: Stream) -> None:
        while True:
            async with asyncio.timeout(_SERVED_IDLE):
                data = await stream.read(SIZE)
                if not data:
                    return
                if len(data) < SIZE:
                    data += await stream.read_exactly(SIZE - len(data))
                await stream.write(data)
