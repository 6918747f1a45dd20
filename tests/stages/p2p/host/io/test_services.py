"""Identify between two hosts, and its pushes."""

import pytest

from rollup_node.stages.p2p.encoding import protobuf, varint
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.io import services
from rollup_node.stages.p2p.host.io.host_api import PeerIdentified
from rollup_node.stages.p2p.host.io.streams import Stream
from rollup_node.stages.p2p.storage.peer_record import IdentifyRecord
from tests.support.p2p.hosts import echo, running_host, two_hosts
from tests.support.p2p.raw import DATA, FIN, frame, proposal, raw_peer
from tests.support.timing.conditions import until


async def test_protocol_changes_are_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PUSH_MIN_INTERVAL", 0.0)
    async with two_hosts() as (ours, theirs):

        def known() -> tuple[str, ...]:
            info = ours.connection(theirs.peer_id)
            return info.identify.protocols if info and info.identify else ()

        theirs.set_stream_handler("/later/1", echo)
        await until(lambda: "/later/1" in known())
        theirs.set_stream_handler("/later/2", echo)
        await until(lambda: {"/later/1", "/later/2"} <= set(known()))


async def test_only_the_first_protocols_of_a_long_list_are_stored() -> None:
    async with two_hosts() as (ours, theirs):
        for number in range(200):
            theirs.set_stream_handler(f"/{number:03}/" + "x" * 100, echo)

        def known() -> int:
            info = ours.connection(theirs.peer_id)
            return len(info.identify.protocols) if info and info.identify else 0

        await until(lambda: known() > 200)
        stored = ours.peerstore.record(theirs.peer_id, IdentifyRecord)
        assert stored is not None and 10 < len(stored.protocols) < 30
        assert sum(map(len, stored.protocols)) <= services.MAX_STORED_CHARACTERS


async def test_a_push_needs_no_public_key() -> None:
    async with running_host(1) as ours, raw_peer(ours.port) as peer:
        body = protobuf.bytes_field(3, "/a/1")
        message = varint.encode(len(body)) + body
        await peer.send(proposal(7, identify.PUSH_PROTOCOL) + frame(DATA, FIN, 7, len(message), message))
        assert (await ours.wait_for(PeerIdentified)).identify.protocols == ("/a/1",)


async def reset(stream: Stream) -> None:
    """A handler that answers nothing."""
    stream.reset()


async def send_zeros(stream: Stream) -> None:
    """A handler that does not echo."""
    await stream.write(bytes(32))


async def test_ping_measures_latency() -> None:
    async with two_hosts() as (ours, theirs):
        await services.measure_latency(ours, theirs.peer_id)
        info = ours.connection(theirs.peer_id)
        assert info is not None and info.latency is not None and 0 < info.latency < 5
        latency = info.latency
        links = [*ours.connections_to_peer(theirs.peer_id), *theirs.connections_to_peer(ours.peer_id)]
        await until(lambda: not any(link.streams for link in links))
        for answer in (reset, send_zeros):
            theirs.set_stream_handler("/ipfs/ping/1.0.0", answer)
            await services.measure_latency(ours, theirs.peer_id)
        assert info.latency == latency
