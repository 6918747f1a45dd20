"""A whole p2p process against js-libp2p: gossip of blocks with op-node's parameters, and the sync protocol."""

import asyncio
import contextlib
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from hashlib import shake_128
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.messages.p2p import GapEnd, UnsafeBlocksRequest
from rollup_node.stages.p2p.addresses.peer_id import parse_peer_id
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_12
from rollup_node.stages.p2p.gossipsub.validation_queue import message_id
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.p2p.storage.peer_record import ReqRespScores
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from tests.support.foreign.js_peers import JsError, JsPeer, by, js_peer, js_program
from tests.support.p2p.blocks import CHAIN_ID, LAST_FORK, signed
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, now_block, timed_chain
from tests.support.processes.leftovers import Leftovers

PROGRAM = "gossip_peer.mjs"


class JsGossipPeer:
    """One such node; `peer_text` is its peer id as text."""

    def __init__(self, js: JsPeer) -> None:
        self.js = js
        self.peer_text: str = js.ready["peer"]
        self.peer = parse_peer_id(self.peer_text)
        self.address: str = js.ready["addresses"][0]

    async def join(self, *topics: str) -> None:
        """Join topics, whose messages are all accepted."""
        for topic in topics:
            await self.js.call("validate", topic=topic, result="accept")
            await self.js.call("join", topic=topic)

    async def dial(self, node: P2pNode) -> None:
        """Connect to one of our nodes."""
        await self.js.call("dial", address=node.address)

    async def publish(self, topic: str, message: bytes) -> set[str]:
        """Publish raw message data; returns the peers it was sent to at once."""
        return set(await self.js.call("publish", topic=topic, data=b64encode(message).decode()))

    async def received(self, message_id: bytes) -> dict[str, Any]:
        """Return the event of an accepted message, with its bytes as `data`."""
        event = await self.js.event("message", by(id=message_id.hex()))
        return {**event, "data": b64decode(event["data"])}

    def rpcs(self, part: str, peer: str | None = None) -> list[Any]:
        """Return a part of all RPCs that peers, or one of them, have sent so far, in order."""
        events = [event for event in self.js.events if event["event"] == "rpc" and peer in (None, event["peer"])]
        return [item for event in events for item in event[part]]

    async def wait_for_rpc(self, part: str, matches: Callable[[Any], object]) -> Any:
        """Wait for an entry of a part of an RPC for which `matches` holds."""
        event = await self.js.event("rpc", lambda event: any(map(matches, event[part])))
        return next(item for item in event[part] if matches(item))

    def copies(self, message_id: bytes, peer: str | None = None) -> int:
        """How often peers, or one of them, have sent a message."""
        return sum(rpc["id"] == message_id.hex() for rpc in self.rpcs("messages", peer))

    async def state(self, topic: str) -> dict[str, Any]:
        """Its mesh and subscribers in a topic, and the scores and protocols of all its peers."""
        return dict(await self.js.call("state", topic=topic))

    async def wait_for_state(self, topic: str, condition: Callable[[dict[str, Any]], object]) -> None:
        """Wait until `condition` holds for its state."""
        async with asyncio.timeout(15.0):
            while not condition(await self.state(topic)):
                await asyncio.sleep(0.05)

    async def wait_for_mesh_with(self, node: P2pNode, topic: str) -> None:
        """Wait until each is in the mesh of the other."""
        await node.until(lambda: self.peer in node.stage.gossip.router.meshes.members[topic])
        await self.wait_for_state(topic, lambda state: node.peer in state["mesh"])

    async def set_response(self, number: int, data: bytes) -> None:
        """Set the response to a request for a block."""
        await self.js.call("answer", number=number, data=b64encode(data).decode())

    async def request(self, node: P2pNode, protocol: str, request: bytes) -> bytes:
        """Return our response to a request."""
        data = b64encode(request).decode()
        return b64decode(await self.js.call("request", peer=node.peer, protocol=protocol, data=data, seconds=30.0))

    def requested_numbers(self) -> list[int]:
        """Return the block numbers requested from it, in order."""
        return [event["number"] for event in self.js.events if event["event"] == "request"]


@contextlib.asynccontextmanager
async def gossip_peer(number: int, **options: Any) -> AsyncIterator[JsGossipPeer]:
    """Start one; `gossip` are settings of gossipsub, `sync` the ids under which it serves the sync protocol."""
    async with js_peer(secret=bytes([100 + number] * 32).hex(), **options) as js:
        yield JsGossipPeer(js)


def present_topic(node: P2pNode) -> str:
    """Return the topic of blocks with the present timestamp."""
    return node.stage.gossip.topic(time.time())


OP_NODE, KONA = f"/opstack/req/payload_by_number/{CHAIN_ID}/0", f"/opstack/req/payload_by_number/{CHAIN_ID}/0/"
TOPIC = block_message.block_topic(CHAIN_ID, 4)
REJECTED = 'op_node_default_p2p_gossip_events_total{type="REJECT_MESSAGE"}'
NARROW = {"mesh_d": 1, "mesh_lo": 1, "mesh_hi": 1}
"""A mesh of one: the second peer gets blocks by lazy gossip only."""
THEIR_NARROW = {"D": 1, "Dlo": 1, "Dhi": 1, "Dout": 0, "Dscore": 1}
P4 = {"topicWeight": 1, "invalidMessageDeliveriesWeight": -1, "invalidMessageDeliveriesDecay": 0.99}
OTHERS = ("timeInMesh", "firstMessageDeliveries", "meshMessageDeliveries", "meshFailurePenalty")
ONLY_P4 = {"scoreParams": {"topics": {TOPIC: {**P4, **{f"{name}Weight": 0 for name in OTHERS}}}}}
"""Their scores with invalid messages (P4) as their only part."""


@pytest.fixture(scope="module", autouse=True)
def program(module_leftovers: Leftovers) -> Iterator[None]:
    with js_program(PROGRAM, module_leftovers):
        yield


def message(payload: ExecutionPayload, version: int = 4, **changes: Any) -> bytes:
    """Return a block as it is published."""
    return snappy.compress(signed(payload, version, **changes))


def id_of(data: bytes, topic: str = TOPIC) -> bytes:
    return message_id(topic, data, snappy.decompress(data))


def large_block(number: int, size: int) -> ExecutionPayload:
    """Return a block of transactions that do not compress."""
    return now_block(number, transactions=(b"\x02" + shake_128(bytes([number])).digest(size),))


async def connected(node: P2pNode, *peers: JsGossipPeer) -> None:
    """We dial them, and are in each other's mesh."""
    for peer in peers:
        await peer.join(TOPIC)
        assert await node.call("connectPeer", peer.address) is None
        await peer.wait_for_mesh_with(node, TOPIC)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_signed_blocks_go_both_ways(tmp_path: Path, version: int) -> None:
    """Each version on its topic, in both dial directions, with the same id at both ends and without an author."""
    rollup = chain_of_now(last_fork=LAST_FORK[version])
    topic = block_message.block_topic(CHAIN_ID, version)

    async with P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as node, gossip_peer(1) as theirs:
        assert present_topic(node) == topic
        await theirs.join(*node.stage.gossip.topics, "/another/topic")
        if version % 2:
            await theirs.dial(node)
        else:
            assert await node.call("connectPeer", theirs.address) is None
        await theirs.wait_for_mesh_with(node, topic)
        assert (await theirs.state(topic))["protocols"] == {node.peer: MESHSUB_12}
        assert "/another/topic" not in node.stage.gossip.router.peers.topics
        ours, value = now_block(1, version), now_block(2, version)
        assert await node.publish(ours) is None
        sent = message(ours, version)
        received = await theirs.received(id_of(sent, topic))
        assert (received["topic"], received["data"], received["peer"]) == (topic, sent, node.peer)
        assert {tuple(rpc["fields"]) for rpc in theirs.rpcs("messages")} == {("data", "topic")}
        assert await theirs.publish(topic, message(value, version)) == {node.peer}
        await node.until(lambda: node.received_blocks)
        assert node.received_blocks == [value] and node.stage.gossip.accepted == 1
        assert node.stage.gossip.router.validation_queue.seen.has(
            id_of(message(value, version), topic), time.monotonic()
        )
        peers = (await node.call("peers", True))["peers"]
        assert peers[theirs.peer_text]["scores"]["gossip"]["total"] == 0 and peers[theirs.peer_text]["gossipBlocks"]


async def test_large_blocks_go_both_ways(tmp_path: Path) -> None:
    rollup, size = chain_of_now(), 1_500_000
    async with P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as node, gossip_peer(1) as theirs:
        await connected(node, theirs)
        for number in (1, 2):
            ours, value = large_block(number, size), large_block(100 + number, size)
            assert await node.publish(ours) is None
            received = await theirs.received(id_of(message(ours)))
            assert received["data"] == message(ours)
            await theirs.publish(TOPIC, message(value))
            await node.wait_for_blocks(number)
            assert node.received_blocks[-1] == value


async def test_a_peer_outside_of_our_mesh_gets_ihave_and_sends_iwant(tmp_path: Path) -> None:
    """It gets our blocks and those of others by IHAVE and IWANT only."""

    rollup = chain_of_now()
    async with (
        P2pNode(1, rollup, tmp_path, sequencer_key=KEY, **NARROW).running() as node,
        gossip_peer(1) as member,
        gossip_peer(2) as outsider,
    ):
        await member.join(TOPIC)
        await member.dial(node)
        await member.wait_for_mesh_with(node, TOPIC)
        await outsider.join(TOPIC)
        await outsider.dial(node)
        await outsider.wait_for_rpc("prune", lambda prune: prune == {"topic": TOPIC, "backoff": 60})
        assert list(node.stage.gossip.router.meshes.members[TOPIC]) == [member.peer]
        own, value = large_block(1, 2000), now_block(2)
        assert await node.publish(own) is None
        await member.publish(TOPIC, message(value))
        for item in map(message, (own, value)):
            assert (await outsider.received(id_of(item)))["data"] == item
            assert id_of(item).hex() in outsider.rpcs("ihave")
            assert _announced_before_sent(outsider, id_of(item))
            assert outsider.copies(id_of(item)) == 1
        assert (await outsider.state(TOPIC))["mesh"] == []


def _announced_before_sent(peer: JsGossipPeer, id_: bytes) -> bool:
    rpcs = [event for event in peer.js.events if event["event"] == "rpc"]
    announced = next(at for at, rpc in enumerate(rpcs) if id_.hex() in rpc["ihave"])
    sent = next(at for at, rpc in enumerate(rpcs) if any(item["id"] == id_.hex() for item in rpc["messages"]))
    return announced < sent


async def test_outside_of_their_mesh_we_get_ihave_and_send_iwant(tmp_path: Path) -> None:
    """Their mesh of one holds another node of ours; we respect the PRUNE, and request what they announce."""

    rollup = chain_of_now()
    async with (
        P2pNode(1, rollup, tmp_path).running() as member,
        P2pNode(2, rollup, tmp_path).running() as node,
        gossip_peer(1, gossip=THEIR_NARROW) as theirs,
    ):
        await connected(member, theirs)
        assert await node.call("connectPeer", theirs.address) is None
        meshes = node.stage.gossip.router.meshes
        await node.until(lambda: meshes.backoff.blocks_graft(TOPIC, theirs.peer))
        assert theirs.peer not in meshes.members[TOPIC]
        value = message(now_block(1))
        assert await theirs.publish(TOPIC, value) == {member.peer}
        await node.until(lambda: node.received_blocks)
        assert id_of(value).hex() in theirs.rpcs("iwant", node.peer)
        assert id_of(value).hex() not in theirs.rpcs("iwant", member.peer)
        assert node.stage.gossip.router.lazy_gossip.promises.broken(time.monotonic() + 10) == {}
        assert theirs.rpcs("graft", node.peer).count(TOPIC) == 1, "no GRAFT within the backoff"


@pytest.mark.parametrize("result", ["accept", "ignore", "reject"])
async def test_their_validation_results_of_our_blocks(tmp_path: Path, result: str) -> None:
    """ACCEPT: forwarded to another node of ours. REJECT: our score falls there (P4), they prune us, we respect it."""

    rollup = chain_of_now()
    async with (
        P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as node,
        P2pNode(2, rollup, tmp_path).running() as witness,
        gossip_peer(1, gossip=ONLY_P4) as theirs,
    ):
        await connected(node, theirs)
        await connected(witness, theirs)
        await theirs.js.call("validate", topic=TOPIC, result=result)
        first, second = now_block(1), now_block(2)
        assert await node.publish(first) is None
        await theirs.js.event("validated", by(result=result, id=id_of(message(first)).hex(), peer=node.peer))
        if result == "reject":
            await theirs.wait_for_state(TOPIC, lambda state: state["scores"][node.peer] <= -0.9)
            meshes = node.stage.gossip.router.meshes
            await node.until(lambda: theirs.peer not in meshes.members[TOPIC])
            assert meshes.backoff.blocks_graft(TOPIC, theirs.peer)
        else:
            assert (await theirs.state(TOPIC))["scores"] == {node.peer: 0, witness.peer: 0}
        await theirs.js.call("validate", topic=TOPIC, result="accept")
        assert await node.publish(second) is None
        await witness.until(lambda: second in witness.received_blocks)
        assert (first in witness.received_blocks) == (result == "accept")


async def test_we_send_idontwant(tmp_path: Path) -> None:
    """IDONTWANT (v1.2) for a large message is sent to the rest of the mesh at once."""

    async with (
        P2pNode(1, chain_of_now(), tmp_path).running() as node,
        gossip_peer(1) as sender,
        gossip_peer(2) as other,
    ):
        await connected(node, sender, other)
        small, large = message(now_block(1)), message(large_block(2, 2000))
        for item in (small, large):
            await sender.publish(TOPIC, item)
        await other.received(id_of(large))
        assert other.rpcs("idontwant") == [id_of(large).hex()] and sender.rpcs("idontwant") == []


async def test_their_idontwant_is_respected(tmp_path: Path) -> None:
    """`theirs` has a block from one node of ours and sends IDONTWANT to the other, which gets the block elsewhere."""

    rollup = chain_of_now()
    async with (
        P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as source,
        P2pNode(2, rollup, tmp_path).running() as node,
        gossip_peer(1) as theirs,
        gossip_peer(2) as elsewhere,
    ):
        await connected(source, theirs)
        await connected(node, theirs, elsewhere)
        await theirs.js.call("validate", topic=TOPIC, result="ignore")
        large = large_block(1, 2000)
        assert await source.publish(large) is None
        state = node.stage.gossip.router.peers.states[theirs.peer]
        await node.until(lambda: id_of(message(large)) in state.unwanted)
        await elsewhere.publish(TOPIC, message(large))
        await node.until(lambda: node.received_blocks == [large])
        last = message(now_block(2))
        await elsewhere.publish(TOPIC, last)
        await theirs.js.event("validated", by(id=id_of(last).hex(), peer=node.peer))
        assert theirs.copies(id_of(message(large)), node.peer) == 0
        assert theirs.copies(id_of(message(large)), source.peer) == 1


async def test_signed_messages_are_rejected(tmp_path: Path) -> None:
    """A peer with StrictSign sends nothing that we accept, and rejects our messages."""

    rollup = chain_of_now()
    async with (
        P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as node,
        gossip_peer(1, gossip={"globalSignaturePolicy": "StrictSign"}) as theirs,
    ):
        await connected(node, theirs)
        await theirs.publish(TOPIC, message(now_block(1)))
        await node.until(lambda: node.metric_sum(REJECTED) == 1)
        assert node.received_blocks == [] and not node.stage.gossip.failures
        ours = now_block(2)
        assert await node.publish(ours) is None
        await theirs.wait_for_rpc("messages", lambda item: item["id"] == id_of(message(ours)).hex())
        assert [event for event in theirs.js.events if event["event"] in ("validated", "message")] == []


async def test_topics_are_left_and_joined_again(tmp_path: Path) -> None:
    """A peer that left a topic gets its messages by IWANT only; it is grafted again after the backoff."""

    rollup = chain_of_now()
    async with (
        P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as node,
        gossip_peer(1, gossip={"unsubcribeBackoff": 1000}) as theirs,
    ):
        await connected(node, theirs)
        router = node.stage.gossip.router
        await theirs.js.call("leave", topic=TOPIC)
        await node.until(lambda: theirs.peer not in router.peers.topic_peers(TOPIC))
        assert theirs.peer not in router.meshes.members[TOPIC]
        missed, last = now_block(1), now_block(2)
        assert await node.publish(missed) is None
        await theirs.join(TOPIC)
        await node.until(lambda: theirs.peer in router.peers.topic_peers(TOPIC))
        assert await node.publish(last) is None
        await theirs.received(id_of(message(last)))
        assert not theirs.copies(id_of(message(missed))) or _announced_before_sent(theirs, id_of(message(missed)))
        await theirs.wait_for_mesh_with(node, TOPIC)
        assert node.stage.scorer.gossip_scores(theirs.peer).behavioral_penalty == 0


def request(number: int) -> bytes:
    return struct.pack("<Q", number)


def large(blocks: list[ExecutionPayload], size: int) -> ExecutionPayload:
    """Return the last of some blocks, with a transaction that does not compress."""
    grown = msgspec.structs.replace(blocks[-1], transactions=(b"\x02" + shake_128(b"large").digest(size),))
    return msgspec.structs.replace(grown, block_hash=payload_block_hash(grown))


# --- the sync protocol: they request ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_they_get_a_block_in_the_version_of_its_fork(tmp_path: Path, version: int) -> None:
    """Result code, version, and the block in framed snappy, also a large one; under the ids of op-node and of kona."""
    rollup = chain_of_now(last_fork=LAST_FORK[version])

    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1) as theirs:
        first, second = timed_chain(rollup, 2, version=version)
        node.own_chain = {1: first} | ({2: large([first, second], 1_500_000)} if version == 4 else {})
        await theirs.dial(node)
        identified = await theirs.js.event("peer:identify", by(peer=node.peer))
        assert {OP_NODE, KONA} <= set(identified["protocols"])
        for protocol in (OP_NODE, KONA):
            for number, payload in node.own_chain.items():
                answer = await theirs.request(node, protocol, request(number))
                assert answer[:5] == b"\0" + struct.pack("<I", 1 if version >= 3 else 0)
                assert snappy.decompress_framed(answer[5:]) == block_message.encode_signed_part(payload, version)


async def test_they_get_an_error_code_without_a_block(tmp_path: Path) -> None:
    rollup = chain_of_now()
    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1) as theirs:
        await theirs.dial(node)
        newest = rollup.block_number_at(int(time.time()))
        for sent, code in (
            (request(7), 1),
            (request(newest + 100), 2),
            (request((1 << 64) - 1), 2),
            (request(7)[:-1], 3),
            (b"", 3),
        ):
            assert await theirs.request(node, OP_NODE, sent) == bytes([code]), sent
        node.payload_error = "the engine is away"
        assert await theirs.request(node, OP_NODE, request(7)) == b"\x03"
        with pytest.raises(JsError):
            await theirs.request(node, OP_NODE.replace(str(CHAIN_ID), "902"), request(7))
        assert node.stage.host.peers() == [theirs.peer]


# --- the sync protocol: we request -----------------------------------------------------------------------------------


async def connect(node: P2pNode, theirs: JsGossipPeer) -> None:
    """Dials them and waits until their protocols are known."""
    assert await node.call("connectPeer", theirs.address) is None
    await node.wait_for_sync_peers(1)


def request_range(node: P2pNode, above: ExecutionPayload, head: int) -> None:
    """The engine process requests the blocks between a head and a block."""
    node.engine.send(UnsafeBlocksRequest(head, GapEnd(above.block_number, above.block_hash, above.parent_hash)))


def counts(node: P2pNode, theirs: JsGossipPeer) -> ReqRespScores:
    return node.stage.scorer.application.counts(theirs.peer)


@pytest.mark.parametrize(("version", "protocol"), [(1, OP_NODE), (2, KONA), (3, OP_NODE), (4, KONA)])
async def test_a_gap_is_filled_from_their_responses(tmp_path: Path, version: int, protocol: str) -> None:
    """Blocks are requested from the top down, and sent to the engine process."""
    rollup = chain_of_now(last_fork=LAST_FORK[version])

    blocks = timed_chain(rollup, 8, version=version)
    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[protocol]) as theirs:
        for block in blocks[:-1]:
            await theirs.set_response(block.block_number, payload_by_number.encode_block(rollup, block))
        await connect(node, theirs)
        request_range(node, blocks[-1], head=2)
        await node.wait_for_blocks(5)
        assert node.received_blocks == blocks[6:1:-1] and theirs.requested_numbers() == [7, 6, 5, 4, 3]
        event = await theirs.js.event("request")
        assert (event["protocol"], event["size"], event["peer"]) == (protocol, 8, node.peer)
        responses = counts(node, theirs)
        assert responses.valid_responses > 4 and responses.error_responses == responses.rejected_payloads == 0


async def test_a_large_block_is_received(tmp_path: Path) -> None:
    rollup = chain_of_now()

    block = large(timed_chain(rollup, 3), 1_500_000)
    above = msgspec.structs.replace(timed_chain(rollup, 4)[-1], parent_hash=block.block_hash)
    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[OP_NODE]) as theirs:
        await theirs.set_response(3, payload_by_number.encode_block(rollup, block))
        await connect(node, theirs)
        request_range(node, above, head=2)
        await node.until(lambda: node.received_blocks)
        assert node.received_blocks == [block]
