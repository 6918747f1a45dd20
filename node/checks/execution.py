"""Checks of an execution node and of the execution engine [OPT33, LIF24].

That it is of the chain, and that it has methods; of the engine its port, capabilities, and the forks of its blocks."""

import time
from collections.abc import Mapping
from typing import Any

from rollup_node.node.checks.finding import Finding, error, ok, warning
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity, fork_doubts
from rollup_node.stages.engine.process.engine_client import chain_config, engine_identity
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND
from rollup_node.stages.protocol.hex_encoding import HexError, from_quantity, hash_from_hex, to_hex
from rollup_node.stages.protocol.jwt_token import authorization
from rollup_node.stages.protocol.types import BlockId
from rollup_node.stages.rpc.status.readiness import doubt_text

PRUNED_HISTORY = 4444
BLOCK_NOT_FOUND = ("block not found", "unknown block", "header not found")
CAPABILITIES = "engine_exchangeCapabilities"
FORKCHOICE = "engine_forkchoiceUpdatedV3"


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


def engine_client(url: str, secret: bytes, timeout: float, direct: bool = True) -> JsonRpcClient:
    """Return a client whose every request has a new token, and none without a secret; by no proxy if `direct`."""

    def token() -> Mapping[str, str]:
        return {"Authorization": authorization(secret, time.time())}

    return JsonRpcClient(url, timeout=timeout, headers=token if secret else None, direct=direct)


async def offered_methods(client: JsonRpcClient, check: str) -> tuple[list[Finding], frozenset[str] | None]:
    """Whether this is the port of the Engine API, and the methods that the engine names, None if it names none."""
    try:
        offered = await client.call_typed(list[str], CAPABILITIES, [FORKCHOICE])
        return [ok(check, f"the Engine API has {len(offered)} methods")], frozenset(offered)
    except EndpointError as failure:
        return [warning(check, Code.ENGINE_CAPABILITIES, f"{CAPABILITIES} does not work: {failure}")], None
    except RpcFailure as failure:
        if failure.code == METHOD_NOT_FOUND and await _lacks(client, FORKCHOICE):
            return [error(check, Code.ENGINE_PUBLIC_PORT, f"{client.name} has no Engine API ({failure})")], None
        return [warning(check, Code.ENGINE_CAPABILITIES, f"{CAPABILITIES} does not work: {failure}")], None


async def _lacks(client: JsonRpcClient, method: str) -> bool:
    """Whether a call without parameters gets `method not found`: a method's own error changes nothing."""
    try:
        await client.call(method)
    except RpcFailure as failure:
        return failure.code == METHOD_NOT_FOUND
    except EndpointError:
        return False
    return False


async def check_identity(
    client: JsonRpcClient, check: str, word: str | None
) -> tuple[list[Finding], EngineIdentity | None]:
    """Who the engine says it is, if it does, and whether that contradicts `l2.enginekind`, None if unset [ENG41]."""
    try:
        identity = await engine_identity(client.call_typed)
    except EndpointError as failure:
        return [warning(check, Code.ENGINE_KIND, f"it does not say who it is: {failure}")], None
    if identity is None:
        return [], None
    if word is not None and identity.kind not in (None, word):
        text = f"--l2.enginekind={word} is given, and the engine says that it is {identity}"
        return [warning(check, Code.ENGINE_KIND, text)], identity
    return [ok(check, f"it is {identity}")], identity


async def check_coming_forks(
    client: JsonRpcClient, check: str, rollup: RollupConfig, identity: EngineIdentity | None, network: str, now: float
) -> list[Finding]:
    """Return a warning for each fork to come that the engine seems not to know; `now` in Unix seconds [ENG42]."""
    try:
        config = await chain_config(client.call_typed)
    except EndpointError:
        config = None
    doubts = fork_doubts(rollup, identity, config, network, now)
    return [warning(check, Code.FORK_MISMATCH, doubt_text(doubt, now)) for doubt in doubts]
