"""A whole p2p process against go-libp2p: dialling both ways, the sync protocol, and gossip as far as the daemon allows:
its messages always have an author, and it ends a stream as soon as either end has closed its direction."""

import asyncio
import struct
from hashlib import shake_128
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.host.identify import IdentifyMessage
from rollup_node.stages.p2p.host.io.services import measure_latency
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.foreign.go_peers import GoPeer, Scene, go_peer, need_daemon, run_in_namespace
from tests.support.p2p.blocks import CHAIN_ID, signed
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, now_block, timed_chain
from tests.support.processes.leftovers import Leftovers

TOPIC = block_message.block_topic(CHAIN_ID, 4)
REJECTED = 'op_node_default_p2p_gossip_events_total{type="REJECT_MESSAGE"}'


async def wait_until_known(theirs: GoPeer, node: P2pNode, topic: str | None = None) -> None:
    """Wait until they are connected to our node, or know that it has joined a topic."""
    async with asyncio.timeout(10):
        while node.stage.host.peer_id not in await (theirs.peers() if topic is None else theirs.topic_peers(topic)):
            await asyncio.sleep(0.05)


async def they_dial(theirs: GoPeer, node: P2pNode) -> None:
    await theirs.connect(node.stage.host.peer_id, node.stage.host.addresses[0])


async def dialling(folder: Path) -> None:
    async with P2pNode(1, chain_of_now(), folder).running() as node, go_peer(folder / "go") as theirs:

        def identify() -> IdentifyMessage | None:
            connection = node.stage.host.connection(theirs.peer)
            return None if connection is None else connection.identify

        assert await node.call("connectPeer", theirs.address) is None
        for direction in (2, 1):
            await wait_until_known(theirs, node)
            message = await node.until(identify)
            assert {"/ipfs/id/1.0.0", "/meshsub/1.1.0"} <= set(message.protocols)
            await measure_latency(node.stage.host, theirs.peer)
            connected = node.stage.host.connection(theirs.peer)
            assert connected is not None and connected.latency is not None and 0 < connected.latency < 5
            assert (await node.call("peers", True))["peers"][theirs.peer_text]["direction"] == direction
            assert await node.call("disconnectPeer", theirs.peer_text) is None
            await node.until(lambda: not node.stage.host.peers())
            await they_dial(theirs, node)


async def sync_protocol(folder: Path) -> None:
    rollup = chain_of_now()
    blocks = timed_chain(rollup, 2)
    blocks[1] = msgspec.structs.replace(blocks[1], transactions=(b"\x02" + shake_128(b"large").digest(1_500_000),))
    responses = {block.block_number: payload_by_number.encode_block(rollup, block) for block in blocks}

    def respond(request: bytes) -> bytes:
        return responses[struct.unpack("<Q", request)[0]]

    async with P2pNode(1, rollup, folder).running() as node, go_peer(folder / "go") as theirs:
        node.own_chain = {block.block_number: block for block in blocks}
        await theirs.serve(payload_by_number.protocols(CHAIN_ID)[0], payload_by_number.REQUEST_SIZE, respond)
        await they_dial(theirs, node)
        for protocol in payload_by_number.protocols(CHAIN_ID):
            for number, expected in {**responses, 9: b"\x01", 1 << 40: b"\x02"}.items():
                assert await theirs.request(node.stage.host.peer_id, protocol, struct.pack("<Q", number)) == expected
        for number, expected in responses.items():
            _, stream = await node.stage.host.open_stream(theirs.peer, payload_by_number.protocols(CHAIN_ID))
            await stream.write(payload_by_number.encode_request(number))
            assert await stream.read_exactly(len(expected)) == expected
            stream.reset()


async def gossip(folder: Path) -> None:
    def message(payload: ExecutionPayload) -> bytes:
        return snappy.compress(signed(payload))

    rollup = chain_of_now()
    async with P2pNode(1, rollup, folder, sequencer_key=KEY).running() as node, go_peer(folder / "go") as theirs:
        collecting = asyncio.get_running_loop().create_task(theirs.collect(TOPIC))
        assert await node.call("connectPeer", theirs.address) is None
        await wait_until_known(theirs, node, TOPIC)
        await node.until(lambda: theirs.peer in node.stage.gossip.router.meshes.members[TOPIC])
        ours = now_block(1, transactions=(b"\x02" + shake_128(b"large").digest(500_000),))
        assert await node.publish(ours) is None
        await node.until(lambda: theirs.received)
        assert theirs.received == [message(ours)]
        await theirs.publish(TOPIC, message(now_block(2)))
        await node.until(lambda: node.metric_sum(REJECTED) == 1)
        assert node.received_blocks == [] and node.stage.host.peers() == [theirs.peer]
        collecting.cancel()


@pytest.mark.parametrize("scene", [dialling, sync_protocol, gossip])
def test_go_libp2p(scene: Scene, leftovers: Leftovers) -> None:
    need_daemon()
    run_in_namespace(scene, leftovers.folder, leftovers.environment())
