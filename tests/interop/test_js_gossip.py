"""Gossip of blocks of a whole p2p process against js-libp2p's gossipsub with op-node's parameters."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import shake_128
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_12
from rollup_node.stages.p2p.gossipsub.validation_queue import message_id
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.foreign.js_gossip import PROGRAM, JsGossipPeer, gossip_peer, present_topic
from tests.support.foreign.js_peers import by, js_program
from tests.support.p2p.blocks import CHAIN_ID, LAST_FORK, SIGNER, block, signed
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, now_block
from tests.support.processes.leftovers import Leftovers

TOPIC = block_message.block_topic(CHAIN_ID, 4)
GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
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
        for number in (1, 2, 3):
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


async def test_a_broken_promise_lowers_their_score(tmp_path: Path) -> None:
    """They announce a message that they do not send: behaviour penalty (P7)."""

    async with P2pNode(1, chain_of_now(), tmp_path).running() as node, gossip_peer(1) as theirs:
        await connected(node, theirs)
        await theirs.js.call("ihave", peer=node.peer, topic=TOPIC, ids=["ab" * 20])
        await theirs.wait_for_rpc("iwant", lambda wanted: wanted == "ab" * 20)
        scorer = node.stage.scorer
        await node.until(lambda: scorer.gossip_scores(theirs.peer).behavioral_penalty > 0.5)
        assert scorer.score(theirs.peer) == 0, "few broken promises are forgiven"


def invalid_messages() -> dict[str, bytes]:
    """Messages that we must reject, by the name of the ValidationFailure."""
    now, stranger = int(time.time()), LocalSigner(b"\x77" * 32)
    wrong_hash = msgspec.structs.replace(now_block(4), block_hash=b"\x09" * 32)
    return {
        "snappy": b"\xff\xff\xff\xff\x7f no snappy",
        "too_small": snappy.compress(bytes(65)),
        "signature": snappy.compress(bytes(65) + signed(now_block(2))[65:]),
        "wrong_signer": message(now_block(3), signer=stranger),
        "ssz": snappy.compress(_signed_junk()),
        "too_old": message(block(number=5, timestamp=now - 100)),
        "future": message(block(number=6, timestamp=now + 100)),
        "block_hash": message(wrong_hash),
        "excess_blob_gas": message(now_block(7, excess_blob_gas=1)),
    }


def _signed_junk() -> bytes:
    junk = bytes(700)
    return SIGNER.sign(CHAIN_ID, junk) + junk


@asynccontextmanager
async def node_between(tmp_path: Path) -> AsyncIterator[tuple[P2pNode, JsGossipPeer, JsGossipPeer]]:
    """Yield a node that is connected to a sender and to a witness of what it forwards."""
    async with (
        P2pNode(1, chain_of_now(), tmp_path).running() as node,
        gossip_peer(1) as sender,
        gossip_peer(2) as witness,
    ):
        await connected(node, sender, witness)
        yield node, sender, witness


async def test_rejected_messages_are_not_forwarded(tmp_path: Path) -> None:
    """Each is rejected for its reason. Topics are not scored [SCR4]: the sender stays, and its valid block passes."""
    async with node_between(tmp_path) as (node, sender, witness):
        invalid = invalid_messages()
        for item in invalid.values():
            await sender.publish(TOPIC, item)
        valid = message(now_block(9))
        await sender.publish(TOPIC, valid)
        await witness.received(id_of(valid))
        assert node.stage.gossip.failures == dict.fromkeys(invalid, 1)
        assert [rpc["id"] for rpc in witness.rpcs("messages")] == [id_of(valid).hex()]
        await node.wait_for_blocks(1)
        assert len(node.received_blocks) == 1
        score = (await node.call("peers", True))["peers"][sender.peer_text]["scores"]["gossip"]
        assert score["total"] == 0 and score["behavioralPenalty"] == 0
        await node.until(lambda: node.metric_sum(REJECTED) == len(invalid))
        assert sender.peer in node.stage.gossip.router.meshes.members[TOPIC]


async def test_ignored_messages_are_not_forwarded(tmp_path: Path) -> None:
    """A block without a known signer, and one seen before under another signature."""
    async with node_between(tmp_path) as (node, sender, witness):
        node.set_signer(bytes(20))
        await node.until(lambda: node.stage.signers.current is None)
        await sender.publish(TOPIC, message(now_block(1)))
        await node.until(lambda: node.stage.gossip.failures["no_signer"] == 1)
        node.set_signer(SIGNER.address)
        await node.until(lambda: node.stage.signers.current == SIGNER.address)
        content = signed(now_block(2))
        once, again, last = snappy.compress(content), _with_high_s(content), message(now_block(3))
        for item in (once, again, last):
            await sender.publish(TOPIC, item)
        await witness.received(id_of(last))
        assert node.stage.gossip.failures == {"no_signer": 1, "seen": 1}
        assert [rpc["id"] for rpc in witness.rpcs("messages")] == [id_of(once).hex(), id_of(last).hex()]
        await node.wait_for_blocks(2)
        assert [received_block.block_number for received_block in node.received_blocks] == [2, 3]
        assert node.stage.scorer.score(sender.peer) == 0


def _with_high_s(content: bytes) -> bytes:
    """Return the same block with the other signature that its signer's key allows."""
    s = GROUP_ORDER - int.from_bytes(content[32:64], "big")
    return snappy.compress(content[:32] + s.to_bytes(32, "big") + bytes([content[64] ^ 1]) + content[65:])


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
