"""Checks of an execution node: that it is of the chain, that its head is young, and that it has methods [OPT33]."""

import time
from typing import Any

import msgspec

from rollup_node.node.checks.finding import Finding, error, not_checked, ok, warning
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import AnswerLimit
from rollup_node.stages.protocol.hex_encoding import HexError, from_quantity, hash_from_hex, to_hex
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import Address, BlockId

PRUNED_HISTORY = 4444
BLOCK_NOT_FOUND = ("block not found", "unknown block", "header not found")
OLD_HEAD = 300
"""Seconds: 25 slots of Ethereum without a block."""

OLD_FINALIZED = 3600
"""Seconds between the finalized block and the head; Ethereum finalizes 13 to 19 minutes behind it."""

PROBE = AnswerLimit(32 << 20, 2_000_000)
"""What the receipts of the head may hold: they are not decoded."""


class Block(msgspec.Struct):
    """A block without its transactions."""

    number: str
    hash: str
    timestamp: str
    blobGasUsed: str = "0x0"

    @property
    def height(self) -> int:
        """Its number. Raises HexError."""
        return from_quantity(self.number)

    @property
    def time(self) -> int:
        """Its time in seconds. Raises HexError."""
        return from_quantity(self.timestamp)


async def check_chain(
    client: JsonRpcClient, check: str, layer: str, chain_id: int, genesis: BlockId | None
) -> list[Finding]:
    """Compare the chain id, and the genesis hash if it is given and the endpoint still has that block.

    Raises EndpointError and RpcFailure."""
    code = Code.L1_CHAIN if layer == "L1" else Code.ENGINE_CHAIN
    try:
        found = from_quantity(await client.call("eth_chainId"), bits=256)
        if found != chain_id:
            return [error(check, code, f"incorrect {layer} RPC chain id {found}, expected {chain_id} ({client.name})")]
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
        if _is_missing(failure):
            return None
        raise


def _is_missing(failure: RpcFailure) -> bool:
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


async def read_block(client: JsonRpcClient, name: str) -> Block | None:
    """Return a block by its number or label, None if there is none. Raises EndpointError, RpcFailure and HexError."""
    try:
        block: Block | None = await client.call_typed(Block | None, "eth_getBlockByNumber", name, False)
    except RpcFailure as failure:
        if _is_missing(failure):
            return None
        raise
    if block is not None:
        _ = block.height, block.time, hash_from_hex(block.hash)
    return block


def check_head(check: str, block: Block) -> Finding:
    """Whether the head of L1 is young."""
    age = time.time() - block.time
    if age > OLD_HEAD:
        return warning(check, Code.L1_HEAD, f"the latest block, {block.height}, is {duration(age)} old")
    return ok(check, f"block {block.height}, {duration(age)} old")


async def check_finality(client: JsonRpcClient, check: str, head: Block) -> Finding:
    """Whether L1 finalizes. Raises EndpointError and HexError."""
    try:
        finalized = await read_block(client, "finalized")
    except RpcFailure as failure:
        return not_checked(check, f"its finalized block: {failure}")
    if finalized is None:
        return not_checked(check, "its finalized block: it has none")
    age = head.time - finalized.time
    if age > OLD_FINALIZED:
        text = f"the finalized block, {finalized.height}, is {duration(age)} older than the latest, {head.height}"
        return warning(check, Code.FINALITY_STALE, text)
    return ok(check, f"finalized block {finalized.height}, {duration(age)} older than the latest")


async def check_l1_methods(client: JsonRpcClient, check: str, head: Block, contract: Address) -> list[Finding]:
    """Whether eth_getBlockReceipts and eth_getProof answer for the head; `contract` is that of the proof."""
    calls: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("eth_getBlockReceipts", (head.hash,)),
        ("eth_getProof", (to_hex(contract), [], head.number)),
    )
    return [await check_method(client, check, Code.L1_METHODS, method, params) for method, params in calls]


async def check_method(client: JsonRpcClient, check: str, code: Code, method: str, params: tuple[Any, ...]) -> Finding:
    """Whether a method answers a call."""
    try:
        await client.call_raw(method, *params, limit=PROBE)
    except (EndpointError, RpcFailure) as failure:
        return warning(check, code, f"{method} does not work: {failure}")
    return ok(check, f"{method} works")
