"""Asks an engine who it is, and for its chain config [ENG41, ENG42]."""

from collections.abc import Awaitable, Callable
from typing import Any

from rollup_node.stages.engine.calls.engine_identity import EngineIdentity, identity_of_text, identity_of_versions
from rollup_node.stages.io.http.jsonrpc import RpcFailure

OWN_VERSION = {"code": "RN", "name": "rollup-node", "version": "", "commit": "0x00000000"}
"""What the engine is told of this node."""

LISTED_VERSION = {**OWN_VERSION, "code": "LH"}
"""The same for an engine that reads no code but those of execution-apis' list, which has none for this node: op-reth
answers -32602 to all others, and says nothing of itself on another method of this port."""

TypedCall = Callable[..., Awaitable[Any]]
"""Makes one call: the type of its result, the method, its parameters. Raises RpcFailure where the engine answers with
an error."""


async def engine_identity(call: TypedCall) -> EngineIdentity | None:
    """Who the engine says it is; None if it has neither method, or answers in another form. Raises what the call
    raises for an engine that does not answer."""
    for method, params, read in (
        ("engine_getClientVersionV1", (OWN_VERSION,), identity_of_versions),
        ("engine_getClientVersionV1", (LISTED_VERSION,), identity_of_versions),
        ("web3_clientVersion", (), identity_of_text),
    ):
        found = await _or_none(call, method, *params)
        identity = read(found)
        if identity is not None:
            return identity
    return None


async def chain_config(call: TypedCall) -> dict[str, Any] | None:
    """The configuration that the engine executes by; None if the port does not serve `debug_chainConfig`, as that of
    most engines. Raises as `engine_identity`."""
    found = await _or_none(call, "debug_chainConfig")
    return found if isinstance(found, dict) else None


async def _or_none(call: TypedCall, method: str, *params: Any) -> Any:
    try:
        return await call(Any, method, *params)
    except RpcFailure:
        return None
