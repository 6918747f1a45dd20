"""Drops are fetched page by page, although requests are lost."""

import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.derivation.process.derivation_log import DropBuffer
from rollup_node.stages.derivation.reasons.batches import EpochUnknown
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.messages.derivation import DropEffect, DropsRequest
from rollup_node.stages.rpc.process import process_client
from tests.support.rpc.harness import L1, RpcHarness, RunWithRpc


def test_drops_are_fetched_page_by_page(with_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_client, "REPEAT_SECONDS", 0.05)
    buffer = DropBuffer(kept=500)
    for number in range(700):
        buffer.add(Dropped(DropEffect.DROPPED, EpochUnknown(number), L1))

    async def scenario(rpc: RpcHarness) -> None:
        lost: set[int] = set()

        def answer_the_repetition(client: ProcessId, request: DropsRequest) -> None:
            if request.id in lost:
                server.send(client, buffer.answer(request))
            lost.add(request.id)

        server = rpc.buses["derivation"].serve("derivation.drops", answer_the_repetition)
        found = await rpc.call("explain_drops")
        assert found["total"] == 700
        assert [drop["values"]["epoch"] for drop in found["drops"]] == list(range(200, 700))
        assert found["drops"][0] == {
            "l1_block": {"hash": "0x" + L1.hash.hex(), "number": 10},
            "effect": "dropped",
            "rule": "V8",
            "reason": "epoch_unknown",
            "text": "batch dropped: epoch 200 is not known yet [V8]",
            "values": {"epoch": 200},
        }

    with_rpc(scenario)
