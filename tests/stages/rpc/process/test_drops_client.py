"""Drops are fetched page by page, although requests are lost."""

import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.derivation.process.drop_buffer import DropBuffer
from rollup_node.stages.messages.derivation import Drop, DropEffect, DropsRequest
from rollup_node.stages.rpc.process import process_client
from tests.support.rpc_harness import L1, RpcHarness, RunWithRpc


def test_drops_are_fetched_page_by_page(with_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_client, "REPEAT_SECONDS", 0.05)
    buffer = DropBuffer(kept=500)
    for number in range(700):
        buffer.add(Drop("V4", f"number {number}", L1, False, DropEffect.DROPPED, "parent_hash", {"got": number}))

    async def scenario(rpc: RpcHarness) -> None:
        lost: set[int] = set()

        def answer_the_repetition(client: ProcessId, request: DropsRequest) -> None:
            if request.id in lost:
                server.send(client, buffer.answer(request))
            lost.add(request.id)

        server = rpc.buses["derivation"].serve("derivation.drops", answer_the_repetition)
        found = await rpc.call("explain_drops")
        assert found["total"] == 700
        assert [drop["values"]["got"] for drop in found["drops"]] == list(range(200, 700))
        assert found["drops"][0] == {
            "l1_block": {"hash": "0x" + L1.hash.hex(), "number": 10},
            "effect": "dropped",
            "rule": "V4",
            "reason": "parent_hash",
            "text": "number 200",
            "values": {"got": 200},
        }

    with_rpc(scenario)
