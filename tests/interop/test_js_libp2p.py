"""Our host against js-libp2p: dialling both ways, identify, ping, long streams, and disconnecting."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import parse_peer_id, peer_id_text
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.io.host_api import PeerDisconnected, PeerIdentified, StreamError
from rollup_node.stages.p2p.host.io.services import measure_latency
from tests.support.foreign.js_peers import JsError, JsPeer, by, js_peer, js_program
from tests.support.p2p.hosts import ECHO, RecordingHost, echo_through, running_host
from tests.support.processes.leftovers import Leftovers
from tests.support.timing.conditions import until

PROGRAM = "libp2p_peer.mjs"
SIZES = (0, 1, 100_000, 1_500_000)


class Pair(NamedTuple):
    """Our host, the JavaScript one, and its peer id."""

    ours: RecordingHost
    theirs: JsPeer
    peer: bytes

    @property
    def our_text(self) -> str:
        return peer_id_text(self.ours.peer_id)


@asynccontextmanager
async def pair(**options: bool) -> AsyncIterator[Pair]:
    async with running_host(2, user_agent="optimism", **options) as ours, js_peer(secret="01" * 32) as theirs:
        yield Pair(ours, theirs, parse_peer_id(theirs.ready["peer"]))


async def we_dial(both: Pair) -> None:
    address = parse_multiaddr(both.theirs.ready["addresses"][0])
    await both.ours.connect(both.peer, [address])


async def they_dial(both: Pair) -> None:
    result = await both.theirs.call("dial", address=both.ours.multiaddr)
    assert result == {"encryption": "/noise", "multiplexer": "/yamux/1.0.0"}


@pytest.fixture(scope="module", autouse=True)
def program(module_leftovers: Leftovers) -> Iterator[None]:
    with js_program(PROGRAM, module_leftovers):
        yield


@pytest.mark.parametrize("early", [True, False], ids=["early muxer", "negotiated muxer"])
@pytest.mark.parametrize("dial", [we_dial, they_dial])
async def test_identify_ping_and_streams_for_both_dialers(dial: Callable[[Pair], Awaitable[None]], early: bool) -> None:
    async with pair(early_muxer=early) as both:
        await dial(both)
        await _check_identify(both)
        await measure_latency(both.ours, both.peer)
        connected = both.ours.connection(both.peer)
        assert connected is not None and connected.latency is not None and 0 < connected.latency < 5
        assert 0 <= await both.theirs.call("ping", peer=both.our_text) < 5000
        for size in SIZES:
            await _check_echo(both, size)
        await _check_many_streams(both)


async def _check_identify(both: Pair) -> None:
    event = await both.ours.wait_for(PeerIdentified)
    assert event.peer == both.peer
    assert ECHO in event.identify.protocols and "/ipfs/ping/1.0.0" in event.identify.protocols
    assert str(event.identify.agent_version).startswith("js-libp2p")
    assert event.identify.observed_address is not None
    received = await both.theirs.event("peer:identify", by(peer=both.our_text))
    assert received["agent"] == "optimism"
    assert {ECHO, "/ipfs/id/1.0.0", "/ipfs/id/push/1.0.0", "/ipfs/ping/1.0.0"} <= set(received["protocols"])
    assert f"/ip4/127.0.0.1/tcp/{both.ours.port}" in received["addresses"]


async def _check_echo(both: Pair, size: int) -> None:
    data = hashlib.shake_128(b"data").digest(size)
    assert await echo_through(both.ours, both.peer, data) == data
    result = await both.theirs.call("echo", peer=both.our_text, size=size)
    pattern = (b"rollup" * (size // 6 + 1))[:size]
    assert result == {"size": size, "hash": hashlib.sha256(pattern).hexdigest()}


async def _check_many_streams(both: Pair) -> None:
    for _ in range(50):
        assert await echo_through(both.ours, both.peer, b"short") == b"short"
    answers = await asyncio.gather(
        *(echo_through(both.ours, both.peer, bytes([number]) * 5000) for number in range(20))
    )
    assert answers == [bytes([number]) * 5000 for number in range(20)]
    await until(lambda: sum(len(link.streams) for link in both.ours.connections_to_peer(both.peer)) <= 2)


async def test_identify_push_both_ways() -> None:
    async with pair() as both:
        await we_dial(both)
        await both.ours.wait_for(PeerIdentified)
        await both.theirs.event("peer:identify", by(peer=both.our_text))
        await both.theirs.call("serve", protocol="/later/1")
        await until(lambda: "/later/1" in _protocols(both))
        both.ours.set_stream_handler("/ours/later/1", _ignore)

        async def has_learned() -> bool:
            return "/ours/later/1" in await both.theirs.call("protocols", peer=both.our_text)

        async with asyncio.timeout(10):
            while not await has_learned():
                await asyncio.sleep(0.05)


def _protocols(both: Pair) -> tuple[str, ...]:
    info = both.ours.connection(both.peer)
    return info.identify.protocols if info is not None and info.identify is not None else ()


async def _ignore(_: object) -> None:
    return None


async def test_unsupported_protocols_both_ways() -> None:
    async with pair() as both:
        await we_dial(both)
        with pytest.raises(StreamError, match="does not support /unknown/1"):
            await both.ours.open_stream(both.peer, ["/unknown/1"])
        protocol, stream = await both.ours.open_stream(both.peer, ["/unknown/1", ECHO])
        assert protocol == ECHO
        stream.reset()
        with pytest.raises(JsError):
            await both.theirs.call("echo", peer=both.our_text, size=1, protocol="/unknown/1")
        assert await echo_through(both.ours, both.peer, b"still here") == b"still here"


async def test_either_end_disconnects() -> None:
    async with pair() as both:
        await we_dial(both)
        await both.theirs.event("peer:connect", by(peer=both.our_text))
        await both.theirs.call("hangup", peer=both.our_text)
        await both.ours.wait_for(PeerDisconnected)
        assert both.ours.connections() == []
        await we_dial(both)
        both.theirs.events.clear()
        both.ours.disconnect(both.peer, PeerDropReason.BY_OPERATOR)
        await both.theirs.event("peer:disconnect", by(peer=both.our_text))
        assert await both.theirs.call("connections") == []
