"""Gossip over real sockets with peers that mean no good, and what is kept of them."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rollup_node.stages.p2p.encoding import protobuf, varint
from rollup_node.stages.p2p.gossipsub.params import PROTOCOLS
from rollup_node.stages.p2p.gossipsub.rpc import MAX_FIELDS, Rpc, Subscription, encode_frame
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.io.host_api import Stream
from rollup_node.stages.p2p.process.gossip_service import MESH_TAG
from tests.support.p2p_hosts import RecordingHost, running_host
from tests.support.p2p_nodes import KEY, P2pNode, chain_of_now, now_block, run_scenario
from tests.support.p2p_raw import DATA, FIN, GO_AWAY, frame, proposal, raw_peer

COSTLY = protobuf.varint_field(15, 1) * MAX_FIELDS
"""A message of Gossipsub that takes long to read and says nothing."""


async def drain(stream: Stream) -> None:
    while await stream.read():
        pass


@asynccontextmanager
async def speaking(node: P2pNode, number: int) -> AsyncIterator[tuple[RecordingHost, Stream]]:
    """A host that takes what the node gossips, and its own stream of gossip to the node."""
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


def test_floods_delay_themselves_and_not_blocks(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with (
            P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as source,
            P2pNode(2, rollup, tmp_path, static=(source.address,)).running() as node,
            speaking(node, 3) as (one, first),
            speaking(node, 4) as (other, second),
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
                await node.until(lambda number=number: len(node.received_blocks) == number)
            spent = time.thread_time() - spent
            assert max(received.values()) <= 3 + int(2 * spent / 0.05), received
            shares, now = node.stage.gossip.work_budget, time.monotonic()
            assert shares.delay(one.peer_id, now) + shares.delay(other.peer_id, now) > 0
            assert shares.delay(source.stage.host.peer_id, now) == 0.0
            for task in floods:
                task.cancel()

    run_scenario(scene)


def test_peers_that_leave_at_once_leave_no_state(tmp_path: Path) -> None:
    """A stream that opens in the same breath in which its connection ends finds nobody any more."""

    async def scene() -> None:
        async with P2pNode(1, chain_of_now(), tmp_path).running() as node:
            host = node.stage.host
            hello = encode_frame(Rpc(subscriptions=[Subscription(node.stage.gossip.topics[0], True)]))
            push = varint.encode(1) + b"x"
            for number in range(2, 7):
                async with raw_peer(host.port, number) as peer:
                    await node.until(host.peers)
                    farewell = frame(GO_AWAY, 0, 0, 0)
                    gossip = proposal(101, PROTOCOLS[0]) + frame(DATA, 0, 101, len(hello), hello)
                    identified = proposal(103, identify.PUSH_PROTOCOL) + frame(DATA, FIN, 103, len(push), push)
                    await peer.send(gossip + identified + farewell)
                    assert await peer.is_disconnected()
                await node.until(lambda: not host.peers())
            gossip_service = node.stage.gossip
            await node.until(lambda: not gossip_service._inbound and not gossip_service._retry_now, 5)
            assert (
                not gossip_service._outbound_open
                and not gossip_service._writers
                and not len(gossip_service.work_budget)
            )
            assert not host.identify._last_push

    run_scenario(scene)


def test_the_mesh_of_the_present_topic_is_protected(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with P2pNode(1, rollup, tmp_path).running() as node:
            peer = None
            async with P2pNode(2, rollup, tmp_path, static=(node.address,)).running() as other:
                await node.wait_for_mesh()
                peer = other.stage.host.peer_id
                await node.until(lambda: node.stage.host.connection_manager.is_protected(peer, MESH_TAG))
                assert (await node.call("peers", True))["peers"][other.peer]["protected"]
            await node.until(lambda: not node.stage.host.connection_manager.is_protected(peer))

    run_scenario(scene)
