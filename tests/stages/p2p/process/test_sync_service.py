"""Whole p2p processes that serve and request blocks by number [SYN6 to SYN18]."""

import asyncio
from pathlib import Path
from typing import cast

import msgspec
import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.p2p import GapEnd, UnsafeBlocksRequest
from rollup_node.stages.p2p.process import sync_service
from rollup_node.stages.p2p.process.sync_service import SyncServer
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import payload_block_hash
from tests.support.p2p.hosts import RecordingHost
from tests.support.p2p.nodes import P2pNode, chain_of_now, timed_chain
from tests.support.processes.recording_bus import RecordingBus


async def test_a_gap_is_filled_from_peers(rollup: RollupConfig, tmp_path: Path) -> None:
    blocks = timed_chain(rollup, 20)
    async with (
        P2pNode(1, rollup, tmp_path).running() as server,
        P2pNode(2, rollup, tmp_path, static=(server.address,)).running() as node,
    ):
        server.own_chain = {block.block_number: block for block in blocks}
        top = blocks[-1]
        request = UnsafeBlocksRequest(3, GapEnd(top.block_number, top.block_hash, top.parent_hash))
        await node.wait_for_sync_peers(1)
        node.engine.send(request)
        await node.wait_for_blocks(16)
        assert sorted(node.received_blocks, key=lambda item: item.block_number) == blocks[3:19]
        assert node.metric_sum('op_node_default_p2p_req_total{p2p_method="payload_by_number",p2p_role="cl') == 16
        assert server.metric_sum('op_node_default_p2p_payload_by_number{p2p_role="server"}') >= 4
        scores = (await node.call("peers", True))["peers"][server.peer]["scores"]["reqResp"]
        assert scores["validResponses"] > 5 and scores["errorResponses"] == 0


async def test_peers_without_blocks_and_peers_that_lie(rollup: RollupConfig, tmp_path: Path) -> None:
    """One peer has no blocks, one has an error, one gives blocks of another chain: the fourth fills the gap."""
    blocks = timed_chain(rollup, 8)
    nodes = [P2pNode(number, rollup, tmp_path) for number in (1, 2, 3, 4)]
    async with nodes[0].running(), nodes[1].running(), nodes[2].running(), nodes[3].running():
        nodes[1].payload_error = "the engine is away"
        for block in blocks:
            wrong = msgspec.structs.replace(block, gas_used=7)
            nodes[2].own_chain[block.block_number] = msgspec.structs.replace(
                wrong, block_hash=payload_block_hash(wrong)
            )
            nodes[3].own_chain[block.block_number] = block
        others = tuple(node.address for node in nodes)
        async with P2pNode(5, rollup, tmp_path, static=others).running() as node:
            await node.wait_for_sync_peers(4)
            top = blocks[-1]
            request = UnsafeBlocksRequest(0, GapEnd(top.block_number, top.block_hash, top.parent_hash))

            def complete() -> bool:
                return {received_block.block_number for received_block in node.received_blocks} == set(range(1, 8))

            async with asyncio.timeout(25):
                while not complete():
                    node.engine.send(request)
                    await asyncio.sleep(0.1)
            assert {received_block.block_hash for received_block in node.received_blocks} == {
                block.block_hash for block in blocks[:7]
            }
            counts = node.stage.scorer.application
            liar = nodes[2].stage.host.peer_id
            assert counts.counts(nodes[1].stage.host.peer_id).error_responses > 0
            assert counts.counts(liar).rejected_payloads > 0 and counts.score(liar) < 0
            assert counts.counts(nodes[0].stage.host.peer_id).error_responses == 0


async def test_a_truncated_request_gets_unknown_error(rollup: RollupConfig, tmp_path: Path) -> None:
    """By the protocol id of kona, with a slash at its end."""
    async with (
        P2pNode(1, rollup, tmp_path).running() as server,
        P2pNode(2, rollup, tmp_path, static=(server.address,)).running() as node,
    ):
        await node.until(lambda: node.stage.host.peers())
        host = node.stage.host
        _, stream = await host.open_stream(host.peers()[0], payload_by_number.protocols(901)[1:])
        await stream.write(bytes(7))
        stream.close()
        assert await stream.read_all(9) == bytes([payload_by_number.ResultCode.UNKNOWN_ERROR])
        await server.until(lambda: server.metric_sum("op_node_default_p2p_req_total{") == 1)


@pytest.mark.option("p2p.sync.req-resp")
async def test_without_the_sync_protocol_nothing_is_requested(tmp_path: Path) -> None:
    async with P2pNode(1, chain_of_now(), tmp_path, sync_req_resp=False).running() as node:
        node.engine.send(UnsafeBlocksRequest(0, GapEnd(9, b"\x01" * 32, b"\x02" * 32)))
        assert not [name for name in (await node.call("self"))["protocols"] if "payload_by_number" in name]
        assert node.stage.sync is None


async def test_silence_of_the_engine_process_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_service, "TIMEOUT_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        await SyncServer(RecordingHost(1), cast(Bus, RecordingBus()))._read(7)
