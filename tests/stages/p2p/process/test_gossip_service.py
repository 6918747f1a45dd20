"""Gossip of whole p2p processes over real sockets: publishing, broken streams, floods, state of peers that leave."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.p2p.encoding import protobuf, varint
from rollup_node.stages.p2p.gossipsub.params import PROTOCOLS
from rollup_node.stages.p2p.gossipsub.rpc import MAX_FIELDS, Rpc, Subscription, encode_frame
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.io.host_api import Direction
from rollup_node.stages.p2p.host.io.streams import Stream
from rollup_node.stages.p2p.process.block_publisher import NO_SIGNER
from rollup_node.stages.protocol.config import RollupConfig
from tests.support.p2p.blocks import block
from tests.support.p2p.hosts import RecordingHost, running_host
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, meshed_pair, now_block
from tests.support.p2p.raw import DATA, FIN, GO_AWAY, frame, proposal, raw_peer

COSTLY = protobuf.varint_field(15, 1) * MAX_FIELDS
"""An RPC that takes long to parse and holds nothing."""


async def drain(stream: Stream) -> None:
    while await stream.read():
        pass


@asynccontextmanager
async def gossiping_host(node: P2pNode, number: int) -> AsyncIterator[tuple[RecordingHost, Stream]]:
    """Yield a host that reads the node's gossip, and its own gossip stream to the node."""
    async with running_host(number) as host:
        for protocol in PROTOCOLS:
            host.set_stream_handler(protocol, drain)
        await host.connect(node.stage.host.peer_id, node.stage.host.addresses)
        _, stream = await host.open_stream(node.stage.host.peer_id, PROTOCOLS)
        await node.until(lambda: host.peer_id in node.stage.gossip.router.peers.states)
        yield host, stream


async def flood(stream: Stream) -> None:
    while True:
        await stream.write(varint.encode(len(COSTLY)) + COSTLY)


async def test_floods_delay_themselves_and_not_blocks(rollup: RollupConfig, tmp_path: Path) -> None:
    async with (
        P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as source,
        P2pNode(2, rollup, tmp_path, static=(source.address,)).running() as node,
        gossiping_host(node, 3) as (one, first),
        gossiping_host(node, 4) as (other, second),
    ):
        await source.wait_for_mesh()
        received: dict[bytes, int] = {one.peer_id: 0, other.peer_id: 0}
        receive = node.stage.gossip.router.receive_rpc

        def counted(peer: bytes, raw: bytes, now: float) -> Any:
            received[peer] = received.get(peer, 0) + (raw == COSTLY)
            return receive(peer, raw, now)

        node.stage.gossip.router.receive_rpc = counted  # type: ignore[method-assign]
        floods = [asyncio.create_task(flood(stream)) for stream in (first, second)]
        await node.until(lambda: all(received[host.peer_id] for host in (one, other)))
        spent = time.thread_time()
        for number in range(1, 4):
            assert await source.publish(now_block(number)) is None
            await node.wait_for_blocks(number)
        spent = time.thread_time() - spent
        assert max(received.values()) <= 3 + int(2 * spent / 0.05), received
        budget, now = node.stage.gossip.work_budget, time.monotonic()
        assert budget.delay(one.peer_id, now) + budget.delay(other.peer_id, now) > 0
        assert budget.delay(source.stage.host.peer_id, now) == 0.0
        for task in floods:
            task.cancel()


async def test_peers_that_leave_at_once_leave_no_state(tmp_path: Path) -> None:
    """Streams that open right before their connection ends leave nothing behind."""
    async with P2pNode(1, chain_of_now(), tmp_path).running() as node:
        host = node.stage.host
        hello = encode_frame(Rpc(subscriptions=[Subscription(next(iter(node.stage.gossip.topics)), True)]))
        push = varint.encode(1) + b"x"
        for number in range(2, 7):
            async with raw_peer(host.port, number) as peer:
                await node.until(host.peers)
                go_away = frame(GO_AWAY, 0, 0, 0)
                gossip = proposal(101, PROTOCOLS[0]) + frame(DATA, 0, 101, len(hello), hello)
                identified = proposal(103, identify.PUSH_PROTOCOL) + frame(DATA, FIN, 103, len(push), push)
                await peer.send(gossip + identified + go_away)
                assert await peer.is_disconnected()
            await node.until(lambda: not host.peers())
        service = node.stage.gossip
        await node.until(lambda: not service._inbound and not service._retry_now, 5)
        assert not service._outbound_open and not service._writers and not len(service.work_budget)


async def test_the_mesh_of_the_present_topic_is_protected(rollup: RollupConfig, tmp_path: Path) -> None:
    async with P2pNode(1, rollup, tmp_path).running() as node:
        peer = None
        async with P2pNode(2, rollup, tmp_path, static=(node.address,)).running() as other:
            await node.wait_for_mesh()
            peer = other.stage.host.peer_id
            await node.until(lambda: node.stage.host.connection_manager.is_protected(peer))
            assert (await node.call("peers", True))["peers"][other.peer]["protected"]
        await node.until(lambda: not node.stage.host.connection_manager.is_protected(peer))


EVENTS = 'op_node_default_p2p_gossip_events_total{type="'


async def test_blocks_are_gossiped_and_delivered_once(rollup: RollupConfig, tmp_path: Path) -> None:
    """Three nodes in a row: each block reaches both others once, in order, and never returns to the first."""
    async with (
        P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as source,
        P2pNode(2, rollup, tmp_path, static=(source.address,)).running() as second,
        P2pNode(3, rollup, tmp_path, static=(second.address,)).running() as third,
    ):
        nodes = (source, second, third)
        for node in nodes:
            await node.wait_for_mesh()
        blocks = [now_block(number) for number in (1, 2, 3)]
        for block in blocks:
            assert await source.publish(block) is None
        for node in (second, third):
            await node.wait_for_blocks(3)
            assert node.received_blocks == blocks
        assert source.received_blocks == []
        await second.until(lambda: second.status is not None and second.status.connected == 2)
        assert second.health == ()
        await second.until(lambda: second.metric_sum(EVENTS + 'DELIVER_MESSAGE"}') == 3)
        assert third.metric_sum(EVENTS + 'GRAFT"}') > 0


async def test_publish_errors(rollup: RollupConfig, tmp_path: Path) -> None:
    async with P2pNode(1, rollup, tmp_path).running() as node:
        assert await node.publish(now_block()) == NO_SIGNER
    async with P2pNode(2, rollup, tmp_path, sequencer_key=b"\x22" * 32).running() as node:
        assert "peers would not accept the block: wrong_signer" in str(await node.publish(now_block()))
    async with P2pNode(3, rollup, tmp_path, sequencer_key=KEY).running() as node:
        assert "too_old" in str(await node.publish(block(number=1, timestamp=int(time.time()) - 100)))
        bare = msgspec.structs.replace(now_block(2), withdrawals_root=None)
        assert "the block cannot be encoded: " in str(await node.publish(bare))


def gossip_stream(node: P2pNode, peer: bytes) -> Stream:
    """Return the inbound gossip stream of a peer."""
    (connection,) = node.stage.host.connections_to_peer(peer)
    streams = connection.streams.values()
    return next(stream for stream in streams if stream.protocol in PROTOCOLS and stream.direction is Direction.INBOUND)


@pytest.mark.fault("F50")
async def test_a_broken_gossip_stream_is_reopened(rollup: RollupConfig, tmp_path: Path) -> None:
    """Both gossip streams break repeatedly; they are opened again, and blocks go on."""
    async with meshed_pair(rollup, tmp_path, sequencer_key=KEY) as (source, node):
        for number in (1, 2):
            await source.wait_for_mesh()
            await node.wait_for_mesh()
            assert await source.publish(now_block(number)) is None
            await node.wait_for_blocks(number)
            gossip_stream(node, source.stage.host.peer_id).reset()
            await source.until(lambda: not source.stage.gossip.mesh_size(time.time()))
        assert len(node.stage.host.peers()) == 1, "the connection was kept"
