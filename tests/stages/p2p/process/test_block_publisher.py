"""Blocks of whole p2p processes that a remote signer signs: failures, slow answers, second blocks of a height.
Blocks between the p2p and the engine process: published once, and sent again to a restarted engine process."""

import time
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.messages.p2p import (
    GapEnd,
    LatestBlocksRequest,
    LatestBlocksResponse,
    PublishRequest,
    PublishResponse,
    UnsafeBlock,
    UnsafeBlocksRequest,
)
from rollup_node.stages.p2p.blocks.latest_blocks import MAX_RECENT, LatestBlocks
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.p2p.process.block_publisher import UnsafeBlocksServer
from rollup_node.stages.p2p.signer.io import remote_signer
from rollup_node.stages.p2p.signer.signing_queue import Done
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId
from tests.support.engine.remote_signers import SignerServer, TlsSetUp
from tests.support.p2p.blocks import SIGNER, block, chain, l1_info_transaction, publish_request, signed
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, meshed_pair, now_block, timed_chain
from tests.support.processes.recording_bus import RecordingBus


def on_origin(rollup: RollupConfig, number: int, origin: BlockId, **changes: Any) -> ExecutionPayload:
    """Return a block with the present timestamp and an L1 origin."""
    now = int(time.time())
    return block(number=number, timestamp=now, transactions=(l1_info_transaction(rollup, now, origin),), **changes)


async def request_all(node: P2pNode, blocks: list[ExecutionPayload]) -> None:
    """The engine process hands blocks over once, with their numbers as ids, and does not wait for answers."""
    await node.until(lambda: node.stage.signers.current)
    for payload in blocks:
        node.engine.send(publish_request(payload))


def is_second(error: str | None) -> bool:
    """Whether a block was refused as the second one of its height."""
    return error is not None and error.startswith("not signed: block 1 0x") and error.endswith("on the same parent")


async def test_a_remote_signer_signs_what_peers_accept(tmp_path: Path) -> None:
    rollup, files = chain_of_now(), TlsSetUp(tmp_path)
    async with (
        SignerServer().running(files.server_context()) as server,
        meshed_pair(rollup, tmp_path, signer=files.config(server.endpoint)) as (source, node),
    ):
        own = now_block(1)
        assert await source.publish(own) is None
        await node.wait_for_blocks(1)
        assert node.received_blocks == [own] and source.health in (None, ())
        assert [call["method"] for call in server.calls] == ["opsigner_signBlockPayload"]
        assert (await source.call("diagnosis"))["gossip"]["published"] == 1


async def test_a_block_that_somebody_else_signed_is_published(rollup: RollupConfig, tmp_path: Path) -> None:
    """[RPC65]: without a key of this node's own, and only what peers accept."""
    async with meshed_pair(rollup, tmp_path) as (source, node):
        own = now_block(1)
        signature = signed(own, chain_id=rollup.l2_chain_id)[:65]
        assert await source.publish_signed(1, own, bytes(65)) is not None
        assert await source.publish_signed(2, own, signature) is None
        await node.wait_for_blocks(1)
        assert node.received_blocks == [own]
        no_root = msgspec.structs.replace(own, parent_beacon_root=None)
        text = "failed to encoded execution payload to publish: the payload has no parent beacon root"
        assert await source.publish_signed(3, no_root, signature) == text


async def test_a_failing_signer_is_a_problem_and_its_blocks_are_retried(rollup: RollupConfig, tmp_path: Path) -> None:
    async with (
        SignerServer(LocalSigner(b"\x33" * 32)).running() as server,
        meshed_pair(rollup, tmp_path, signer=server.config()) as (source, node),
    ):
        await request_all(source, [now_block(1)])
        await source.until(lambda: source.health and "not of signer.address" in source.health[0])
        assert source.health is not None and source.health[0].startswith("blocks are not signed: 127.0.0.1:")
        assert node.received_blocks == [] and source.publish_errors == {}
        server.key = LocalSigner(KEY)
        await node.wait_for_blocks(1)
        await source.until(lambda: source.publish_errors == {1: None} and source.health == ())
        assert node.stage.gossip.failures == {}, "no wrong signature was gossiped"


@pytest.mark.option("p2p.gossip.timestamp.threshold", "signer.tls.enabled")
async def test_a_block_that_grows_too_old_is_dropped_and_the_problem_ends(tmp_path: Path) -> None:
    async with P2pNode(
        1,
        chain_of_now(),
        tmp_path,
        signer=SignerConfig("http://127.0.0.1:1", SIGNER.address, tls_enabled=False),
        gossip_timestamp_threshold=2.0,
    ).running() as node:
        await request_all(node, [now_block(1)])
        await node.until(lambda: node.health and "Connection refused" in node.health[0])
        await node.until(lambda: node.publish_errors)
        assert node.publish_errors == {1: "too_old: peers accept blocks of the last 2 s only"}
        await node.until(lambda: node.health == ())


async def test_no_second_block_is_signed_for_a_height_also_after_a_restart(
    rollup: RollupConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "store")
    async with SignerServer().running() as server:
        options: dict[str, Any] = {"signer": server.config(), "peerstore_path": store}
        first = on_origin(rollup, 1, BlockId(100, b"\x0a" * 32))
        second = on_origin(rollup, 1, BlockId(100, b"\x0a" * 32), gas_used=5)
        later = on_origin(rollup, 1, BlockId(101, b"\x0b" * 32))
        child = on_origin(rollup, 2, BlockId(100, b"\x0a" * 32), parent=second.block_hash)
        async with P2pNode(1, rollup, tmp_path, **options).running() as node:
            assert await node.publish(first) is None and is_second(await node.publish(second))
        async with P2pNode(1, rollup, tmp_path, **options).running() as node:
            assert await node.publish(first) is None, "the same block"
            assert is_second(await node.publish(second)) and is_second(await node.publish(later))
            assert await node.publish(child, BlockId(100, b"\x0a" * 32)) is None, "no block of its height was signed"
            reorganised = on_origin(rollup, 1, BlockId(100, b"\x0c" * 32))
            assert await node.publish(reorganised) is None, "its L1 origin replaces that of the first"
        assert len(server.bodies) == 4, "what is refused is never sent to the signer"
    assert "nothing is to be done: blocks above the highest signed one are signed again" in capsys.readouterr().err
    assert Path(f"{store}_signed_blocks").stat().st_mode & 0o777 == 0o600


async def test_a_block_that_is_dropped_while_it_is_signed_is_not_gossiped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_signer, "SIGN_TIMEOUT", 30.0)
    rollup = chain_of_now()
    async with (
        SignerServer().running() as server,
        meshed_pair(rollup, tmp_path, signer=server.config()) as (source, node),
    ):
        server.is_open.clear()
        first = on_origin(rollup, 1, BlockId(100, b"\x0a" * 32))
        other = on_origin(rollup, 1, BlockId(100, b"\x0c" * 32))
        source.engine.send(publish_request(first, 1))
        await source.until(lambda: server.bodies)
        source.engine.send(publish_request(other, 2))
        await source.until(lambda: source.publish_errors == {1: "another block took its height before it was signed"})
        server.is_open.set()
        await source.until(lambda: source.publish_errors.get(2, "") is None)
        await node.wait_for_blocks(1)
        assert node.received_blocks == [other]


async def test_a_block_may_be_signed_though_its_answer_was_lost(rollup: RollupConfig, tmp_path: Path) -> None:
    """It is stored before the signer is asked, so another one is refused even if no signature came back."""
    async with SignerServer().running() as server:
        options: dict[str, Any] = {"signer": server.config(), "peerstore_path": str(tmp_path / "store")}
        first = now_block(1)
        second = now_block(1, gas_used=5)
        server.is_open.clear()
        async with P2pNode(1, rollup, tmp_path, **options).running() as node:
            await request_all(node, [first])
            await node.until(lambda: server.bodies)
        server.is_open.set()
        async with P2pNode(1, rollup, tmp_path, **options).running() as node:
            assert is_second(await node.publish(second))
            assert await node.publish(first) is None


async def test_the_blocks_that_were_taken_over_are_given_back_also_after_a_restart(tmp_path: Path) -> None:
    """[SGN12] With those of a peer on top of them."""
    rollup = chain_of_now(20)
    blocks = timed_chain(rollup, 5, first=3)
    head = BlockId(4, blocks[1].block_hash)
    options: dict[str, Any] = {"sequencer_key": KEY, "peerstore_path": str(tmp_path / "store")}
    async with P2pNode(1, rollup, tmp_path, **options).running() as node:
        for block in blocks[:4]:
            assert await node.publish(block) is None
        assert await node.latest_above(head) == tuple(blocks[2:4])
        assert await node.latest_above(BlockId(6, blocks[3].block_hash)) == ()
    async with P2pNode(1, rollup, tmp_path, **options).running() as node:
        assert await node.latest_above(head) == tuple(blocks[2:4])
        assert await node.latest_above(BlockId(4, bytes(32))) == ()
        address = node.address
        async with P2pNode(2, rollup, tmp_path, sequencer_key=KEY, static=(address,)).running() as other:
            await other.wait_for_mesh()
            assert await other.publish(blocks[4]) is None
            await node.wait_for_blocks(1)
        assert await node.latest_above(head) == tuple(blocks[2:5])


BLOCKS = chain(MAX_RECENT + 2)
ENGINE = ProcessId(slot=0, incarnation=1)
RESTARTED = ENGINE._replace(incarnation=2)


class Harness:
    """A server between a recorded bus and recorded callbacks."""

    def __init__(self, error: str | None = None) -> None:
        self.published: list[ExecutionPayload] = []
        self.gaps: list[tuple[int, GapEnd]] = []
        self.waiting: list[Done] = []
        self.is_ready, self.is_slow = True, False
        self._error = error
        self.bus = RecordingBus()
        self.server = UnsafeBlocksServer(
            cast(Bus, self.bus),
            self._publish,
            lambda: self.is_ready,
            lambda head, end: self.gaps.append((head, end)),
            LatestBlocks(None),
        )

    def _publish(self, request: PublishRequest, done: Done) -> None:
        self.published.append(request.payload)
        self.waiting.append(done)
        if not self.is_slow:
            done(self._error)

    def receive(self, sender: ProcessId, message: Any) -> list[tuple[ProcessId | None, Any]]:
        """Return what the server sends upon a message of the engine process."""
        self.bus.sent.clear()
        self.bus.handlers["p2p.blocks"](sender, message)
        return list(self.bus.sent)


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.mark.parametrize("error", [None, "no key"])
def test_a_block_is_published_once_however_often_it_is_requested(error: str | None) -> None:
    harness = Harness(error)
    for _ in range(3):
        assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [(ENGINE, PublishResponse(1, error))]
    assert harness.published == [BLOCKS[0]] and harness.server.published == (error is None)


def test_nothing_is_published_before_the_signer_is_known(harness: Harness) -> None:
    harness.is_ready = False
    assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [] and harness.published == []
    harness.is_ready = True
    assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [(ENGINE, PublishResponse(1, None))]


def test_a_block_that_waits_for_its_signature_is_answered_later(harness: Harness) -> None:
    harness.is_slow = True
    for _ in range(2):
        assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == []
    assert harness.published == [BLOCKS[0]], "repeated requests are one"
    harness.waiting[0](None)
    assert harness.bus.sent == [(ENGINE, PublishResponse(1, None))]
    assert harness.receive(ENGINE, publish_request(BLOCKS[0], 1)) == [(ENGINE, PublishResponse(1, None))]


def test_the_answer_to_a_dead_engine_process_is_not_sent_to_the_next_one(harness: Harness) -> None:
    harness.is_slow = True
    harness.receive(ENGINE, publish_request(BLOCKS[0], 1))
    harness.receive(RESTARTED, UnsafeBlocksRequest(0, None))
    harness.waiting[0](None)
    assert harness.bus.sent == [] and harness.server.published == 1, "the answer is none to the restarted engine"


def test_a_restarted_engine_gets_the_latest_blocks_of_peers_again(harness: Harness) -> None:
    harness.receive(ENGINE, publish_request(BLOCKS[0], 1))
    for payload in BLOCKS:
        harness.server.send_block(payload)
    sent = harness.receive(RESTARTED, UnsafeBlocksRequest(0, None))
    assert sent == [(RESTARTED, UnsafeBlock(block)) for block in BLOCKS[-MAX_RECENT:]]
    sent = harness.receive(RESTARTED, publish_request(BLOCKS[1], 1))
    assert sent == [(RESTARTED, PublishResponse(1, None))] and len(harness.published) == 2, "ids are per incarnation"


def test_messages_of_a_dead_engine_are_ignored(harness: Harness) -> None:
    harness.receive(RESTARTED, UnsafeBlocksRequest(0, None))
    assert harness.receive(ENGINE, publish_request(BLOCKS[0], 9)) == [] and harness.published == []


def test_the_latest_blocks_above_a_head_are_sent_once_the_process_is_ready(harness: Harness) -> None:
    harness.is_ready = False
    for payload in BLOCKS[:4]:
        harness.server.send_block(payload)
    head = BlockId(2, BLOCKS[1].block_hash)
    assert harness.receive(ENGINE, LatestBlocksRequest(head)) == [(ENGINE, UnsafeBlock(block)) for block in BLOCKS[:4]]
    harness.is_ready = True
    sent = [(ENGINE, LatestBlocksResponse(head, tuple(BLOCKS[2:4])))]
    assert harness.receive(ENGINE, LatestBlocksRequest(head)) == sent
