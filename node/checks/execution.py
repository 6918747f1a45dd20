"""Checks of an execution node: that it is of the chain, that its head is young, and that it has methods [OPT33]."""

from typing import Any

from rollup_node.node.checks.finding import Finding, error, ok
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.hex_encoding import HexError, from_quantity, hash_from_hex, to_hex
from rollup_node.stages.protocol.types import BlockId

PRUNED_HISTORY = 4444
BLOCK_NOT_FOUND = ("block not found", "unknown block", "header not found")


async def check_chain(
    client: JsonRpcClient, check: str, layer: str, chain_id: int, genesis: BlockId | None
) -> list[Finding]:
    """Compare chain id and, where given and still there, genesis hash. Raises EndpointError and RpcFailure."""
    code = Code.L1_CHAIN if layer == "L1" else Code.ENGINE_CHAIN
    try:
        result = from_quantity(await client.call("eth_chainId"), bits=256)
        if result != chain_id:
            return [error(check, code, f"incorrect {layer} RPC chain id {result}, expected {chain_id} ({client.name})")]
        if genesis is None:
            return [ok(check, f"chain {chain_id}")]
        block = await _block(client, genesis.number)
        if block is None:
            text = f"the {layer} endpoint does not have the genesis block: its hash is not checked"
            return [ok(check, f"chain {chain_id}; {text}")]
        found_hash = hash_from_hex(block.get("hash") if isinstance(block, dict) else block)
    except HexError as failure:
        text = f"the {layer} endpoint {client.name} does not respond like an Ethereum node, {failure}"
        return [error(check, code, text)]
    if found_hash != genesis.hash:
        text = (
            f"incorrect {layer} genesis block hash {to_hex(found_hash)}, expected {to_hex(genesis.hash)}"
            f" ({client.name}, block {genesis.number})"
        )
        return [error(check, code, text)]
    return [ok(check, f"chain {chain_id}, genesis {to_hex(genesis.hash)[:12]}..")]


async def _block(client: JsonRpcClient, number: int) -> Any:
    try:
        return await client.call("eth_getBlockByNumber", hex(number), False)
    except RpcFailure as failure:
        if is_missing(failure):
            return None
        raise


def is_missing(failure: RpcFailure) -> bool:
    """Whether an error says that there is no such block."""
    return failure.code == PRUNED_HISTORY or any(text in failure.message.lower() for text in BLOCK_NOT_FOUND)


async def is_execution_node(url: str, timeout: float) -> bool:
    """Whether a URL answers eth_chainId."""
    client = JsonRpcClient(url, timeout=timeout)
    try:
        from_quantity(await client.call("eth_chainId"), bits=256)
    except (EndpointError, RpcFailure, HexError):
        return False
    finally:
        await client.close()
    return True
