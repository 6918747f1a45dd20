"""The method superroot_atTimestamp: op-node's answer for one chain to the clients of op-supernode [RPC41 to RPC45]."""

from typing import Any

import msgspec

from rollup_node.stages.messages.control import L1AtSafeHeadRequest, OutputRequest, OutputResponse, SafeHeadResponse
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L2BlockRef
from rollup_node.stages.rpc import responses
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.process.node_view import NodeView


async def at_timestamp(node: NodeView, timestamp: int) -> Any:
    """superroot_atTimestamp. Derivation's L1 block is taken before the heads are asked for, never after [RPC43a]."""
    number, derivation = _block_number(node.config.rollup, timestamp), node.derivation
    output = await node.control.request(lambda request_id: OutputRequest(request_id, number, only_safe=True))
    if not isinstance(output, OutputResponse) or output.status is None:
        raise JsonRpcError(SERVER_ERROR, output.error or "the engine process gave no output")
    heads = msgspec.structs.replace(output.status, current_l1=None)
    chain = node.config.rollup.l2_chain_id
    outputs = {chain: (output, await _required_l1(node, output.block))} if output.block is not None else {}
    return responses.superroot(timestamp, responses.sync_status(node.l1, heads, derivation), (chain,), outputs)


def _block_number(rollup: RollupConfig, timestamp: int) -> int:
    """The number of the last block at or before a time in seconds."""
    if timestamp < rollup.genesis.l2_time:
        text = f"did not reach genesis time ({rollup.genesis.l2_time}) yet"
        raise JsonRpcError(SERVER_ERROR, f"target block number for timestamp {timestamp}: {text}")
    return rollup.genesis.l2.number + (timestamp - rollup.genesis.l2_time) // rollup.block_time


async def _required_l1(node: NodeView, block: L2BlockRef) -> BlockId:
    if block.id == node.config.rollup.genesis.l2:
        return BlockId(0, ZERO_HASH)
    error: str | None = "safe head database not enabled"
    if node.config.safedb:
        response = await node.control.request(lambda request_id: L1AtSafeHeadRequest(request_id, block.number))
        if isinstance(response, SafeHeadResponse) and response.error is None:
            return response.l1_block
        error = response.error
    raise JsonRpcError(SERVER_ERROR, f"l1AtSafeHead@{to_hex(block.hash)}:{block.number}: {error}")
