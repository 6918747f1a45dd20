"""Blocks by request, with all of the p2p process around it, against js-libp2p on the other end of the streams."""

import asyncio
import struct
import time
from hashlib import shake_128
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.messages.p2p import GapEnd, PayloadResponse, UnsafeBlocksRequest
from rollup_node.stages.p2p.blocks import message as block_message
from rollup_node.stages.p2p.encoding.snappy import compress_framed
from rollup_node.stages.p2p.reqresp import messages as sync_wire
from rollup_node.stages.p2p.reqresp.rate_limits import PEER_BURST, PEER_RATE, PeerBuckets
from rollup_node.stages.p2p.reqresp.server import LONGEST_WAIT
from rollup_node.stages.p2p.scoring.application_score import AppCounts
from rollup_node.stages.protocol.block_hash import payload_block_hash
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.js_gossip import GossipPeer, gossip_peer
from tests.support.js_peers import JsFailure, by, need_packages
from tests.support.p2p_blocks import CHAIN_ID, LAST_FORK
from tests.support.p2p_nodes import P2pNode, chain_of_now, play, timed_chain

OP_NODE, KONA = f"/opstack/req/payload_by_number/{CHAIN_ID}/0", f"/opstack/req/payload_by_number/{CHAIN_ID}/0/"
REQUESTS = 'op_node_default_p2p_req_total{p2p_method="payload_by_number"'


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    need_packages()


def request(number: int) -> bytes:
    return struct.pack("<Q", number)


def large(blocks: list[ExecutionPayload], size: int) -> ExecutionPayload:
    """The last of some blocks, with a transaction that does not compress."""
    grown = msgspec.structs.replace(blocks[-1], transactions=(b"\x02" + shake_128(b"large").digest(size),))
    return msgspec.structs.replace(grown, block_hash=payload_block_hash(grown))


# --- they ask -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_they_get_a_block_in_the_bytes_of_its_fork(tmp_path: Path, version: int) -> None:
    """Result code, version, and the block in framed snappy; under the ids of op-node and of kona."""
    rollup = chain_of_now(last_fork=LAST_FORK[version])

    async def scene() -> None:
        async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1) as theirs:
            first, second = timed_chain(rollup, 2, version=version)
            node.blocks = {1: first, 2: large([first, second], 1_500_000)}
            await theirs.dial(node)
            identified = await theirs.js.event("peer:identify", by(peer=node.peer))
            assert {OP_NODE, KONA} <= set(identified["protocols"])
            for protocol in (OP_NODE, KONA):
                for number, payload in node.blocks.items():
                    answer, content = await theirs.request(node, protocol, request(number))
                    assert answer[:5] == b"\0" + struct.pack("<I", 1 if version >= 3 else 0)
                    assert content == block_message.signed_part(payload, version)

    play(scene)


def test_they_are_told_why_there_is_no_block(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1) as theirs:
            await theirs.dial(node)
            newest = rollup.block_number_at(int(time.time()))
            for asked, code in (
                (request(7), 1),
                (request(newest + 100), 2),
                (request((1 << 64) - 1), 2),
                (request(7)[:-1], 3),
                (b"", 3),
            ):
                assert await theirs.request(node, OP_NODE, asked) == (bytes([code]), None), asked
            node.payloads._handler = lambda peer, want: node.payloads.send(  # type: ignore[attr-defined]
                peer, PayloadResponse(want.id, None, "the engine is away")
            )
            assert await theirs.request(node, OP_NODE, request(7)) == (b"\x03", None)
            with pytest.raises(JsFailure):
                await theirs.request(node, OP_NODE.replace(str(CHAIN_ID), "902"), request(7))
            assert node.stage.host.peers() == [theirs.peer]

    play(scene)


def test_they_ask_too_often(tmp_path: Path) -> None:
    """A burst is served at once, what follows is slowed down, and what would wait too long is refused at once. (Of an
    answer that ends before it was asked for, their library may lose all but the end: refusals are counted here.)"""

    async def scene() -> None:
        rollup = chain_of_now()
        async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1) as theirs:
            node.blocks = {1: timed_chain(rollup, 1)[0]}
            await theirs.dial(node)
            served = asyncio.Queue[float]()
            began = time.monotonic()

            async def ask() -> None:
                _, content = await theirs.request(node, OP_NODE, request(1))
                if content is not None:
                    served.put_nowait(time.monotonic() - began)

            most = int(PEER_BURST + PEER_RATE * LONGEST_WAIT)
            asking = [asyncio.get_running_loop().create_task(ask()) for _ in range(most + 25)]
            await node.until(lambda: node.counted(f'{REQUESTS},p2p_role="server",result_code="3"') > 10)
            times = [await served.get() for _ in range(int(PEER_BURST) + 4)]
            assert times[-1] >= 3 / PEER_RATE
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)
            assert node.stage.host.peers() == [theirs.peer]

    play(scene)


# --- we ask -------------------------------------------------------------------------------------------------------


async def asks(node: P2pNode, theirs: GossipPeer) -> None:
    """We dial them and know that they speak the protocol."""
    assert await node.call("connectPeer", theirs.address) is None
    assert node.stage.sync is not None
    planner = node.stage.sync._planner
    await node.until(lambda: planner._peers)


def want(node: P2pNode, above: ExecutionPayload, head: int) -> None:
    """The engine process wants what is between a head and a block."""
    node.engine.send(UnsafeBlocksRequest(head, GapEnd(above.block_number, above.block_hash, above.parent_hash)))


def counts(node: P2pNode, theirs: GossipPeer) -> AppCounts:
    return node.stage.scores.app.counts(theirs.peer)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("protocol", [OP_NODE, KONA], ids=["op-node's protocol", "kona's protocol"])
def test_a_gap_is_filled_from_their_answers(tmp_path: Path, version: int, protocol: str) -> None:
    """They are asked from the top down, and the engine process gets the blocks."""
    rollup = chain_of_now(last_fork=LAST_FORK[version])

    async def scene() -> None:
        blocks = timed_chain(rollup, 8, version=version)
        async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[protocol]) as theirs:
            for each in blocks[:-1]:
                await theirs.answer(each.block_number, sync_wire.encode_block(rollup, each))
            await asks(node, theirs)
            want(node, blocks[-1], head=2)
            await node.until(lambda: len(node.arrived) == 5)
            assert node.arrived == blocks[6:1:-1] and theirs.asked() == [7, 6, 5, 4, 3]
            asked = await theirs.js.event("asked")
            assert (asked["protocol"], asked["size"], asked["peer"]) == (protocol, 8, node.peer)
            found = counts(node, theirs)
            assert found.valid_responses > 4 and found[1:] == (0, 0)

    play(scene)


def test_a_large_block_is_got(tmp_path: Path) -> None:
    rollup = chain_of_now()

    async def scene() -> None:
        given = large(timed_chain(rollup, 3), 1_500_000)
        above = msgspec.structs.replace(timed_chain(rollup, 4)[-1], parent_hash=given.block_hash)
        async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[OP_NODE]) as theirs:
            await theirs.answer(3, sync_wire.encode_block(rollup, given))
            await asks(node, theirs)
            want(node, above, head=2)
            await node.until(lambda: node.arrived)
            assert node.arrived == [given]

    play(scene)


def bad_answers(rollup: RollupConfig, right: ExecutionPayload) -> dict[str, bytes]:
    """Answers that are an error of the peer, by what is wrong."""
    good, other = (sync_wire.encode_block(rollup, each) for each in (right, timed_chain(rollup, 1)[0]))
    ten_mebibytes = b"\xfe\xff\xff\xff" + bytes(0xFFFFFF)
    return {
        "empty": b"",
        "no version": good[:3],
        "invalid request": b"\x02",
        "unknown error": b"\x03",
        "unknown code": b"\x09",
        "wrong version": good[:1] + bytes(4) + good[5:],
        "truncated snappy": good[:-10],
        "damaged snappy": good[:-1] + bytes([good[-1] ^ 1]),
        "no snappy": good[:5] + b"nothing of the kind",
        "larger than it may be decompressed": good[:5] + compress_framed(bytes((10 << 20) + 1)),
        "larger than it may be": good[:5] + ten_mebibytes,
        "truncated SSZ": good[:5] + compress_framed(block_message.signed_part(right, 4)[:-1]),
        "another number": other,
    }


def test_bad_answers_cost_them_an_error(tmp_path: Path) -> None:
    """None reaches the engine process or the quarantine; then the right block does."""
    rollup = chain_of_now()

    async def scene() -> None:
        blocks = timed_chain(rollup, 4)
        right, above = blocks[2:]
        async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[OP_NODE]) as theirs:
            await asks(node, theirs)
            assert node.stage.sync is not None
            planner = node.stage.sync._planner
            for name, answer in {
                **bad_answers(rollup, right),
                "broken off": sync_wire.encode_block(rollup, right),
            }.items():
                await theirs.answer(3, answer, broken=name == "broken off")
                before, asked = counts(node, theirs), len(theirs.asked())
                node.stage.scores.app._counts.clear()
                planner._buckets = PeerBuckets()
                want(node, above, head=2)
                await node.until(lambda: counts(node, theirs).error_responses, 8.0)
                assert counts(node, theirs)[2] == 0 and before.rejected_payloads == 0, name
                await node.until(lambda asked=asked: len(theirs.asked()) > asked)
                assert len(theirs.asked()) == asked + 1, f"{name}: it is not asked again for this range"
                assert node.arrived == [] and len(planner.quarantine) == 0, name
            await theirs.answer(3, sync_wire.encode_block(rollup, right))
            want(node, above, head=2)
            await node.until(lambda: node.arrived == [right])
            assert node.stage.host.peers() == [theirs.peer]

    play(scene)


def test_an_error_makes_them_wait(tmp_path: Path) -> None:
    """Each error costs a burst of requests; errors lower the score no further than by nine."""
    rollup = chain_of_now()

    async def scene() -> None:
        blocks = timed_chain(rollup, 6)
        async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[OP_NODE]) as theirs:
            for number in (3, 4, 5):
                await theirs.answer(number, b"\x03")
            await asks(node, theirs)
            began = time.monotonic()
            want(node, blocks[-1], head=2)
            await theirs.js.event("asked", by(number=4))
            assert time.monotonic() - began >= 1.5 / PEER_RATE
            await node.until(lambda: counts(node, theirs).error_responses > 1.5)
            assert -2 <= node.stage.scores.total(theirs.peer) <= -1.5

    play(scene)


def test_lacking_a_block_is_no_error(tmp_path: Path) -> None:
    """They are not asked for the rest of the range, which another peer fills."""
    rollup = chain_of_now()

    async def scene() -> None:
        blocks = timed_chain(rollup, 6)
        async with (
            P2pNode(1, rollup, tmp_path).running() as node,
            P2pNode(2, rollup, tmp_path).running() as other,
            gossip_peer(1, sync=[OP_NODE]) as theirs,
        ):
            other.blocks = {each.block_number: each for each in blocks}
            await asks(node, theirs)
            want(node, blocks[-1], head=2)
            await theirs.js.event("asked", by(number=5))
            assert await node.call("connectPeer", other.address) is None
            await node.until(lambda: len(node.arrived) == 3)
            assert theirs.asked() == [5] and counts(node, theirs) == (0, 0, 0)

    play(scene)


def test_blocks_of_another_chain_end_in_a_ban(tmp_path: Path) -> None:
    """What is not the block expected is not handed on and costs 20 a piece; below -100 they are banned."""
    rollup = chain_of_now()

    async def scene() -> None:
        blocks = timed_chain(rollup, 8)
        wrong = [msgspec.structs.replace(each, gas_used=7) for each in blocks]
        wrong = [msgspec.structs.replace(each, block_hash=payload_block_hash(each)) for each in wrong]
        forged = msgspec.structs.replace(blocks[6], gas_used=7)
        async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[OP_NODE]) as theirs:
            await theirs.answer(7, sync_wire.encode_block(rollup, forged))
            await asks(node, theirs)
            for rejected in range(1, 7):
                want(node, blocks[7], head=2)
                await node.until(lambda rejected=rejected: counts(node, theirs).rejected_payloads > rejected - 0.6)
                await node.until(lambda rejected=rejected: theirs.asked() == [7] * rejected)
                assert node.arrived == []
                await theirs.answer(7, sync_wire.encode_block(rollup, wrong[6]))
            assert node.stage.scores.total(theirs.peer) < -100
            node.stage.keeper.save()
            await theirs.js.event("peer:disconnect", by(peer=node.peer))
            with pytest.raises(JsFailure):
                await theirs.dial(node)
                await theirs.request(node, OP_NODE, request(1))
            assert node.stage.host.peers() == []
            assert (await node.call("peerStats"))["banned"] == 1

    play(scene)
