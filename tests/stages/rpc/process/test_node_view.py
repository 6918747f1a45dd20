"""What the rpc process sees of the other processes."""

import asyncio

import msgspec
import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.derivation.process.derivation_log import DropBuffer
from rollup_node.stages.derivation.reasons.batches import EpochUnknown
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io import requests
from rollup_node.stages.messages.base import EndpointCounts, Endpoints, QueueLength
from rollup_node.stages.messages.control import ControlResponse
from rollup_node.stages.messages.derivation import DropCount, DropCounts, DropEffect, Drops, DropsRequest
from rollup_node.stages.messages.engine import EngineStatus, ForkDoubt, ForkDoubts
from rollup_node.stages.messages.l1 import L1Heads, L1Proof
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.rpc.process import node_view
from rollup_node.stages.rpc.status.status_builder import Snapshot
from tests.support.rpc.harness import L1, L2, RunWithRpc


async def test_after_the_stop_call_the_status_shows_a_stopped_sequencer(
    running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's response and its status come on two channels: the call ends only when the status follows."""
    monkeypatch.setattr(node_view, "STATUS_SECONDS", 20.0)
    async with running_rpc() as rpc:
        await rpc.until_ready()
        running = EngineStatus(1, L2, L2, L2, L2, L2, True, True)
        for method, params, active in (("stop", (), False), ("start", ("0x" + L2.hash.hex(),), True)):
            rpc.on_control = lambda request: ControlResponse(request.id, None, L2.hash)
            status = msgspec.structs.replace(running, sequencer_active=active)
            asyncio.get_running_loop().call_later(0.2, rpc.status["engine"].set, status)
            await rpc.call(f"admin_{method}Sequencer", *params)
            assert await rpc.call("admin_sequencerActive") is active


async def test_what_the_processes_publish_is_seen(running_rpc: RunWithRpc) -> None:
    """[RPC94] l1 first, whichever was heard of first; after a restart of derivation its drops begin again."""
    endpoints = {name: (EndpointCounts(name, "a:1", True, 1, 0, 0, None, False, "", 0, 0),) for name in ("blobs", "l1")}
    kinds = (DropCount("V2", "timestamp_future", DropEffect.DROPPED, 7, "batch dropped [V2]", None),)
    proof, doubts = L1Proof(1200, 14_400, 1120, 13_440, 3, 505, 512, True), (ForkDoubt("lagoon", 9, "no"),)
    async with running_rpc(p2p=True) as rpc:
        for name, counts in endpoints.items():
            rpc.status[name].set(Endpoints(counts))
        for name, message in (
            *(("l1", L1Heads(L1, L1, L1)), ("l1", proof), ("l1", QueueLength(3, 2)), ("engine", ForkDoubts(doubts))),
            *(("derivation", Drops(7, ())), ("derivation", DropCounts(kinds)), ("p2p", PeerStatus(22, 8))),
        ):
            rpc.status[name].set(message)
        expected = Snapshot(
            L1Heads(L1, L1, L1),
            peers=PeerStatus(22, 8),
            drops=7,
            endpoints=endpoints,
            drop_counts=kinds,
            queues={"l1": QueueLength(3, 2)},
            fork_doubts=doubts,
            l1_proof=proof,
        )
        await rpc.until(lambda: rpc.stage.node.seen == expected)
        assert list(rpc.stage.node.seen.endpoints or ()) == ["l1", "blobs"]
        rpc.status["derivation"].set(Drops(1, ()))
        await rpc.until(lambda: rpc.stage.node.seen == expected._replace(drops=1, drop_counts=()))


async def test_drops_are_fetched_page_by_page(running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "REPEAT_SECONDS", 0.05)
    buffer = DropBuffer(kept=500)
    for number in range(700):
        buffer.add(Dropped(DropEffect.DROPPED, EpochUnknown(number), L1))
    async with running_rpc() as rpc:
        lost: set[int] = set()

        def answer_the_repetition(client: ProcessId, request: DropsRequest) -> None:
            if request.id in lost:
                server.send(client, buffer.answer(request))
            lost.add(request.id)

        server = rpc.buses["derivation"].serve("derivation.drops", answer_the_repetition)
        result = await rpc.call("explain_drops")
        assert result["total"] == 700
        assert [drop["values"]["epoch"] for drop in result["drops"]] == list(range(200, 700))
        assert result["drops"][0] == {
            "l1_block": {"hash": "0x" + L1.hash.hex(), "number": 10},
            "effect": "dropped",
            "rule": "V8",
            "reason": "epoch_unknown",
            "text": "batch dropped: epoch 200 is not known yet [V8]",
            "values": {"epoch": 200},
        }
