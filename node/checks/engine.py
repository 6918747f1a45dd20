"""Checks of the execution engine: its port, its capabilities, and the forks of its blocks [LIF24]."""

import time
from collections.abc import Mapping

from rollup_node.node.checks.finding import Finding, error, ok, warning
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity, fork_doubts
from rollup_node.stages.engine.process.engine_client import chain_config, engine_identity
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND
from rollup_node.stages.protocol.jwt_token import authorization
from rollup_node.stages.rpc.status.readiness import doubt_text

CAPABILITIES = "engine_exchangeCapabilities"
FORKCHOICE = "engine_forkchoiceUpdatedV3"


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
