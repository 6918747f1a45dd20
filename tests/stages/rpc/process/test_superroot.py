"""superroot_atTimestamp: op-node's JSON and errors, with an engine process behind it [RPC41 to RPC45]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.messages.base import Message
from rollup_node.stages.messages.control import L1AtSafeHeadRequest, OutputRequest, OutputResponse, SafeHeadResponse
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.output_root import super_root
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L2BlockRef
from tests.support.rpc.harness import L1, L2, ROLLUP, RpcHarness, RunWithRpc

SAFE = msgspec.structs.replace(L2, timestamp=190)
STATUS = EngineStatus(1, L2, L2, SAFE, L2, msgspec.structs.replace(L2, timestamp=180), False, False)
ROOT, STATE, STORAGE = b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32
TIMESTAMP = 5 + 20 * 2 + 1


def output(request: OutputRequest, block: L2BlockRef | None = L2) -> OutputResponse:
    return OutputResponse(request.id, None, block, ROOT, STATE, STORAGE, STATUS)


def test_an_output_at_a_timestamp(with_rpc: RunWithRpc) -> None:
    def answer(request: Message) -> Message:
        if isinstance(request, L1AtSafeHeadRequest):
            return SafeHeadResponse(request.id, None, BlockId(9, b"\x0d" * 32), L2.id)
        assert isinstance(request, OutputRequest) and request.number == 20 and request.only_safe
        return output(request)

    async def scenario(rpc: RpcHarness) -> None:
        await rpc.until_ready()
        rpc.on_control = answer
        l1 = {"hash": "0x" + "0d" * 32, "number": 9}
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == {
            "current_l1": {"hash": to_hex(L1.hash), "number": 10},
            "safe_timestamp": 200,
            "local_safe_timestamp": 190,
            "finalized_timestamp": 180,
            "optimistic_at_timestamp": {
                "901": {
                    "output": {
                        "stateRoot": to_hex(STATE),
                        "messagePasserStorageRoot": to_hex(STORAGE),
                        "blockHash": to_hex(L2.hash),
                    },
                    "output_root": to_hex(ROOT),
                    "required_l1": l1,
                }
            },
            "chain_ids": ["901"],
            "data": {
                "verified_required_l1": l1,
                "super": {"timestamp": hex(TIMESTAMP), "chains": [{"ChainID": "901", "Output": to_hex(ROOT)}]},
                "super_root": to_hex(super_root(TIMESTAMP, [(901, ROOT)])),
            },
        }

    with_rpc(scenario, safedb=True)


def test_a_block_that_is_not_safe_has_no_data(with_rpc: RunWithRpc) -> None:
    """[RPC43]"""

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = lambda request: output(request, None)
        found = await rpc.call("superroot_atTimestamp", hex(TIMESTAMP))
        assert "data" not in found and found["optimistic_at_timestamp"] == {} and found["chain_ids"] == ["901"]
        assert found["current_l1"] == {"hash": to_hex(ZERO_HASH), "number": 0}

    with_rpc(scenario)


def test_the_genesis_block_needs_no_record(with_rpc: RunWithRpc) -> None:
    """[RPC44]"""
    genesis = L2BlockRef(ROLLUP.genesis.l2.hash, 0, ZERO_HASH, 5, ROLLUP.genesis.l1, 0)

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = lambda request: output(request, genesis)
        found = await rpc.call("superroot_atTimestamp", "0x5")
        assert found["data"]["verified_required_l1"] == {"hash": to_hex(ZERO_HASH), "number": 0}

    with_rpc(scenario)


@pytest.mark.parametrize("safedb", [False, True])
def test_errors(with_rpc: RunWithRpc, safedb: bool) -> None:
    """[RPC45, SDB1, SDB6]"""

    def answer(request: Any) -> Message:
        if isinstance(request, L1AtSafeHeadRequest):
            return SafeHeadResponse(request.id, "l1 at safe head history unavailable", L1.id, L2.id)
        return output(request)

    async def scenario(rpc: RpcHarness) -> None:
        text = "target block number for timestamp 4: did not reach genesis time (5) yet"
        assert await rpc.call("superroot_atTimestamp", "0x4") == (-32000, text)
        rpc.on_control = answer
        reason = "l1 at safe head history unavailable" if safedb else "safe head database not enabled"
        text = f"l1AtSafeHead@{to_hex(L2.hash)}:20: {reason}"
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == (-32000, text)
        rpc.on_control = lambda request: OutputResponse(request.id, "busy", None, ROOT, STATE, STORAGE, None)
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == (-32000, "busy")
        assert (await rpc.call("superroot_atTimestamp", "latest"))[0] == -32602

    with_rpc(scenario, safedb=safedb)
