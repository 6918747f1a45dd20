"""superroot_atTimestamp: op-node's JSON and errors, with an engine process behind it [RPC41 to RPC45]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.io import requests
from rollup_node.stages.messages.base import Message
from rollup_node.stages.messages.control import L1AtSafeHeadRequest, OutputRequest, OutputResponse, SafeHeadResponse
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import super_root
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1BlockRef, L2BlockRef
from tests.support.rpc.harness import L1, L2, ROLLUP, RunWithRpc

SAFE = msgspec.structs.replace(L2, timestamp=190)
STATUS = EngineStatus(1, L2, L2, SAFE, L2, msgspec.structs.replace(L2, timestamp=180), False, False)
ROOT, STATE, STORAGE = b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32
TIMESTAMP = 5 + 20 * 2 + 1


def output(request: OutputRequest, block: L2BlockRef | None = L2) -> OutputResponse:
    return OutputResponse(request.id, None, block, ROOT, STATE, STORAGE, STATUS)


async def test_an_output_at_a_timestamp(running_rpc: RunWithRpc) -> None:
    def answer(request: Message) -> Message:
        if isinstance(request, L1AtSafeHeadRequest):
            return SafeHeadResponse(request.id, None, BlockId(9, b"\x0d" * 32), L2.id)
        assert isinstance(request, OutputRequest) and request.number == 20 and request.only_safe
        return output(request)

    async with running_rpc(safedb=True) as rpc:
        await rpc.until_ready()
        rpc.on_control = answer
        l1 = {"hash": "0x" + "0d" * 32, "number": 9}
        roots = {"stateRoot": to_hex(STATE), "messagePasserStorageRoot": to_hex(STORAGE)}
        shown = {**roots, "blockHash": to_hex(L2.hash)}
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == {
            "current_l1": {"hash": to_hex(L1.hash), "number": 10},
            "safe_timestamp": 200,
            "local_safe_timestamp": 190,
            "finalized_timestamp": 180,
            "optimistic_at_timestamp": {"901": {"output": shown, "output_root": to_hex(ROOT), "required_l1": l1}},
            "chain_ids": ["901"],
            "data": {
                "verified_required_l1": l1,
                "super": {"timestamp": hex(TIMESTAMP), "chains": [{"ChainID": "901", "Output": to_hex(ROOT)}]},
                "super_root": to_hex(super_root(TIMESTAMP, [(901, ROOT)])),
            },
        }


async def test_a_block_that_is_not_safe_has_no_data(running_rpc: RunWithRpc) -> None:
    """[RPC43]"""
    async with running_rpc() as rpc:
        rpc.on_control = lambda request: output(request, None)
        result = await rpc.call("superroot_atTimestamp", hex(TIMESTAMP))
        assert "data" not in result and result["optimistic_at_timestamp"] == {} and result["chain_ids"] == ["901"]
        assert result["current_l1"] == {"hash": to_hex(ZERO_HASH), "number": 0}


async def test_the_genesis_block_needs_no_record(running_rpc: RunWithRpc) -> None:
    """[RPC44]"""
    genesis = L2BlockRef(ROLLUP.genesis.l2.hash, 0, ZERO_HASH, 5, ROLLUP.genesis.l1, 0)
    async with running_rpc() as rpc:
        rpc.on_control = lambda request: output(request, genesis)
        result = await rpc.call("superroot_atTimestamp", "0x5")
        assert result["data"]["verified_required_l1"] == {"hash": to_hex(ZERO_HASH), "number": 0}


def newer(number: int) -> DerivationStatus:
    """Derivation has moved on to this L1 block."""
    return DerivationStatus(1, L1BlockRef(b"\x0f" * 32, number, L1.hash, 112), True)


@pytest.mark.parametrize("method", ["superroot_atTimestamp", "optimism_outputAtBlock"])
async def test_current_l1_is_not_newer_than_the_heads(
    running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """[RPC33, RPC43a]: L1 block 11 is read while the engine process answers with heads from before it."""
    monkeypatch.setattr(requests, "REPEAT_SECONDS", 0.02)
    async with running_rpc() as rpc:

        def answer(request: Any) -> Message | None:
            rpc.status["derivation"].set(newer(11))
            seen = rpc.stage.node.seen.derivation
            assert seen is not None
            return output(request, None if request.only_safe else L2) if seen == newer(11) else None

        await rpc.until_ready()
        rpc.on_control = answer
        result = await rpc.call(method, hex(TIMESTAMP))
        assert result.get("syncStatus", result)["current_l1"]["number"] == 10
        rpc.on_control = lambda request: output(request, None if request.only_safe else L2)
        result = await rpc.call(method, hex(TIMESTAMP))
        assert result.get("syncStatus", result)["current_l1"]["number"] == 11


async def test_current_l1_is_zero_during_a_reset_and_without_derivation(running_rpc: RunWithRpc) -> None:
    """[RPC40, RPC43a]: the L1 block of a follow source may be ahead of our heads."""
    no_heads = EngineStatus(1, None, None, None, None, None, False, False)
    for derives, statuses in (
        (True, (msgspec.structs.replace(STATUS, reset=2), no_heads)),
        (False, (msgspec.structs.replace(STATUS, current_l1=L1),)),
    ):
        async with running_rpc(derives=derives) as rpc:
            await rpc.until_ready()
            for status in statuses:
                rpc.on_control = lambda request, status=status: msgspec.structs.replace(  # type: ignore[misc]
                    output(request, None), status=status
                )
                result = await rpc.call("superroot_atTimestamp", hex(TIMESTAMP))
                assert result["current_l1"]["number"] == 0


@pytest.mark.parametrize("reason", ["l1 at safe head not found", "safe head database not enabled"])
async def test_errors(running_rpc: RunWithRpc, reason: str) -> None:
    """[RPC44, RPC45, SDB1, SDB6]: never a zero block for one that is not recorded."""

    def answer(request: Any) -> Message:
        if isinstance(request, L1AtSafeHeadRequest):
            return SafeHeadResponse(request.id, reason, L1.id, L2.id)
        return output(request)

    async with running_rpc(safedb="enabled" not in reason) as rpc:
        text = "target block number for timestamp 4: did not reach genesis time (5) yet"
        assert await rpc.call("superroot_atTimestamp", "0x4") == (-32000, text)
        rpc.on_control = answer
        text = f"l1AtSafeHead@{to_hex(L2.hash)}:20: {reason}"
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == (-32000, text)
        rpc.on_control = lambda request: OutputResponse(request.id, "busy", None, ROOT, STATE, STORAGE, None)
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == (-32000, "busy")
        assert (await rpc.call("superroot_atTimestamp", "latest"))[0] == -32602
