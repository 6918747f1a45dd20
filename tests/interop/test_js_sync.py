"""The sync protocol of a whole p2p process against js-libp2p at the other end of the streams."""

import asyncio
import struct
import time
from collections.abc import Iterator
from functools import partial
from hashlib import shake_128
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.messages.p2p import GapEnd, UnsafeBlocksRequest
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.encoding.snappy import compress_framed
from rollup_node.stages.p2p.host.io.connection import STREAM_BURST, STREAM_RATE
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.p2p.reqresp.server_limits import MAX_WAIT, PEER_BURST, PEER_RATE, RequestLimiter
from rollup_node.stages.p2p.storage.peer_record import ReqRespScores
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from tests.support.foreign.js_gossip import PROGRAM, JsGossipPeer, gossip_peer
from tests.support.foreign.js_peers import JsError, by, js_program
from tests.support.p2p.blocks import CHAIN_ID, LAST_FORK
from tests.support.p2p.nodes import P2pNode, chain_of_now, timed_chain
from tests.support.processes.leftovers import Leftovers

OP_NODE, KONA = f"/opstack/req/payload_by_number/{CHAIN_ID}/0", f"/opstack/req/payload_by_number/{CHAIN_ID}/0/"
REQUESTS = 'op_node_default_p2p_req_total{p2p_method="payload_by_number"'


@pytest.fixture(scope="module", autouse=True)
def program(module_leftovers: Leftovers) -> Iterator[None]:
    with js_program(PROGRAM, module_leftovers):
        yield


def request(number: int) -> bytes:
    return struct.pack("<Q", number)


def large(blocks: list[ExecutionPayload], size: int) -> ExecutionPayload:
    """Return the last of some blocks, with a transaction that does not compress."""
    grown = msgspec.structs.replace(blocks[-1], transactions=(b"\x02" + shake_128(b"large").digest(size),))
    return msgspec.structs.replace(grown, block_hash=payload_block_hash(grown))


# --- they request -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_they_get_a_block_in_the_version_of_its_fork(tmp_path: Path, version: int) -> None:
    """Result code, version, and the block in framed snappy; under the ids of op-node and of kona."""
    rollup = chain_of_now(last_fork=LAST_FORK[version])

    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1) as theirs:
        first, second = timed_chain(rollup, 2, version=version)
        node.own_chain = {1: first, 2: large([first, second], 1_500_000)}
        await theirs.dial(node)
        identified = await theirs.js.event("peer:identify", by(peer=node.peer))
        assert {OP_NODE, KONA} <= set(identified["protocols"])
        for protocol in (OP_NODE, KONA):
            for number, payload in node.own_chain.items():
                answer, content = await theirs.request(node, protocol, request(number))
                assert answer[:5] == b"\0" + struct.pack("<I", 1 if version >= 3 else 0)
                assert content == block_message.encode_signed_part(payload, version)


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
            assert await theirs.request(node, OP_NODE, sent) == (bytes([code]), None), sent
        node.payload_error = "the engine is away"
        assert await theirs.request(node, OP_NODE, request(7)) == (b"\x03", None)
        with pytest.raises(JsError):
            await theirs.request(node, OP_NODE.replace(str(CHAIN_ID), "902"), request(7))
        assert node.stage.host.peers() == [theirs.peer]


async def test_their_requests_are_rate_limited(tmp_path: Path) -> None:
    """A burst is served at once, further requests are delayed, and those that would wait too long get an error at once.

    (Their library may lose a response that ends before its request, so that errors are counted on our side.)"""

    rollup = chain_of_now()
    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1) as theirs:
        node.own_chain = {1: timed_chain(rollup, 1)[0]}
        await theirs.dial(node)
        served = asyncio.Queue[float]()
        began = time.monotonic()

        async def send_request() -> None:
            _, content = await theirs.request(node, OP_NODE, request(1))
            if content is not None:
                served.put_nowait(time.monotonic() - began)

        requesting: list[asyncio.Task[None]] = []

        async def send_requests() -> None:
            """At once as many as the connection lets through, then as fast as it lets through more."""
            for number in range(int(PEER_BURST + PEER_RATE * MAX_WAIT) * 3):
                if number >= STREAM_BURST - 4:
                    await asyncio.sleep(1.5 / STREAM_RATE)
                requesting.append(asyncio.get_running_loop().create_task(send_request()))

        requesting.append(asyncio.get_running_loop().create_task(send_requests()))
        await node.until(lambda: node.metric_sum(f'{REQUESTS},p2p_role="server",result_code="3"') > 10)
        times = [await served.get() for _ in range(int(PEER_BURST) + 4)]
        assert times[-1] >= 3 / PEER_RATE
        for task in requesting:
            task.cancel()
        await asyncio.wait(requesting)
        assert node.stage.host.peers() == [theirs.peer]


# --- we request -------------------------------------------------------------------------------------------------------


async def connect(node: P2pNode, theirs: JsGossipPeer) -> None:
    """Dials them and waits until their protocols are known."""
    assert await node.call("connectPeer", theirs.address) is None
    await node.wait_for_sync_peers(1)


def request_range(node: P2pNode, above: ExecutionPayload, head: int) -> None:
    """The engine process requests the blocks between a head and a block."""
    node.engine.send(UnsafeBlocksRequest(head, GapEnd(above.block_number, above.block_hash, above.parent_hash)))


def counts(node: P2pNode, theirs: JsGossipPeer) -> ReqRespScores:
    return node.stage.scorer.application.counts(theirs.peer)


def has_finished_requests(node: P2pNode, count: int) -> bool:
    """Whether so many of our requests have ended."""
    return node.metric_sum(f'{REQUESTS},p2p_role="client"') >= count


def has_rejected(node: P2pNode, theirs: JsGossipPeer, count: int) -> bool:
    """Whether about so many blocks of theirs were rejected, and requested; counts decay."""
    return counts(node, theirs).rejected_payloads > count - 0.6 and len(theirs.requested_numbers()) >= count


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("protocol", [OP_NODE, KONA], ids=["op-node's protocol", "kona's protocol"])
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


def invalid_responses(rollup: RollupConfig, right: ExecutionPayload) -> dict[str, bytes]:
    """Responses that are an error of the peer, by what is wrong."""
    good, other = (payload_by_number.encode_block(rollup, item) for item in (right, timed_chain(rollup, 1)[0]))
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
        "truncated SSZ": good[:5] + compress_framed(block_message.encode_signed_part(right, 4)[:-1]),
        "another number": other,
    }


async def test_invalid_responses_count_as_errors(tmp_path: Path) -> None:
    """None reaches the engine process or the quarantine; then the valid block does."""
    rollup = chain_of_now()

    blocks = timed_chain(rollup, 4)
    right, above = blocks[2:]
    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[OP_NODE]) as theirs:
        await connect(node, theirs)
        assert node.stage.sync is not None
        planner = node.stage.sync.planner
        responses = {
            **invalid_responses(rollup, right),
            "broken off": payload_by_number.encode_block(rollup, right),
        }
        for number, (name, response) in enumerate(responses.items(), start=1):
            await theirs.set_response(3, response, broken=name == "broken off")
            planner.limiter = RequestLimiter()
            request_range(node, above, head=2)
            await node.until(partial(has_finished_requests, node, number), 8.0)
            result = counts(node, theirs)
            assert result.error_responses > 0 and result.valid_responses == result.rejected_payloads == 0, name
            await node.until(partial(theirs.has_requested_more, number - 1))
            assert len(theirs.requested_numbers()) == number, f"{name}: no second request for this range"
            assert node.received_blocks == [] and len(planner.quarantine) == 0, name
        await theirs.set_response(3, payload_by_number.encode_block(rollup, right))
        request_range(node, above, head=2)
        await node.until(lambda: node.received_blocks == [right])
        assert node.stage.host.peers() == [theirs.peer]


async def test_an_error_delays_the_next_request(tmp_path: Path) -> None:
    """Each error costs a burst of requests; errors lower the score no further than by nine."""
    rollup = chain_of_now()

    blocks = timed_chain(rollup, 6)
    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[OP_NODE]) as theirs:
        for number in (3, 4, 5):
            await theirs.set_response(number, b"\x03")
        await connect(node, theirs)
        began = time.monotonic()
        request_range(node, blocks[-1], head=2)
        await theirs.js.event("request", by(number=4))
        assert time.monotonic() - began >= 1.5 / PEER_RATE
        await node.until(lambda: counts(node, theirs).error_responses > 1.5)
        assert -2 <= node.stage.scorer.score(theirs.peer) <= -1.5


async def test_not_found_is_no_error(tmp_path: Path) -> None:
    """No more is requested from them for the range, which another peer fills."""
    rollup = chain_of_now()

    blocks = timed_chain(rollup, 6)
    async with (
        P2pNode(1, rollup, tmp_path).running() as node,
        P2pNode(2, rollup, tmp_path).running() as other,
        gossip_peer(1, sync=[OP_NODE]) as theirs,
    ):
        other.own_chain = {block.block_number: block for block in blocks}
        await connect(node, theirs)
        request_range(node, blocks[-1], head=2)
        await theirs.js.event("request", by(number=5))
        assert await node.call("connectPeer", other.address) is None
        await node.wait_for_blocks(3)
        assert theirs.requested_numbers() == [5] and counts(node, theirs) == ReqRespScores()


async def test_blocks_of_another_chain_end_in_a_ban(tmp_path: Path) -> None:
    """A block that is not the expected one is not passed on and costs 20; below -100 they are banned."""
    rollup = chain_of_now()

    blocks = timed_chain(rollup, 8)
    wrong = [msgspec.structs.replace(block, gas_used=7) for block in blocks]
    wrong = [msgspec.structs.replace(item, block_hash=payload_block_hash(item)) for item in wrong]
    forged = msgspec.structs.replace(blocks[6], gas_used=7)
    async with P2pNode(1, rollup, tmp_path).running() as node, gossip_peer(1, sync=[OP_NODE]) as theirs:
        await theirs.set_response(7, payload_by_number.encode_block(rollup, forged))
        await connect(node, theirs)
        for rejected in range(1, 7):
            request_range(node, blocks[7], head=2)
            await node.until(partial(has_rejected, node, theirs, rejected))
            assert theirs.requested_numbers() == [7] * rejected
            assert node.received_blocks == []
            await theirs.set_response(7, payload_by_number.encode_block(rollup, wrong[6]))
        assert node.stage.scorer.score(theirs.peer) < -100
        node.stage.score_service.save()
        await theirs.js.event("peer:disconnect", by(peer=node.peer))
        with pytest.raises(JsError):
            await theirs.dial(node)
            await theirs.request(node, OP_NODE, request(1))
        assert node.stage.host.peers() == []
        assert (await node.call("peerStats"))["banned"] == 1
