"""Calls of commands to the running node at the URL of --rpc, and what is said where there is none."""

from typing import Any

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND

KNOWN_METHOD = "optimism_version"
"""Every node has it."""
GIVE_PORT = "give --rpc its --rpc.addr and --rpc.port"


def no_node(error: EndpointError) -> str:
    """Return the line for a URL that does not answer."""
    return f"--rpc: no node answers at {error}; {GIVE_PORT}"


def no_rollup_node(name: str) -> str:
    """Return the line for a URL that answers as another program does."""
    return f"--rpc: {name} is an L1, an engine or another program, not a rollup-node of this version; {GIVE_PORT}"


async def call_node(url: str, method: str, not_found: str) -> Any:
    """Return a node's answer. Raises SetupError, with `not_found` for a node that does not have the method."""
    # Deferred: it takes long to import.
    from rollup_node.stages.io.http.jsonrpc import JsonRpcClient, RpcFailure

    client = JsonRpcClient(url)
    try:
        return await client.call(method)
    except EndpointError as error:
        raise SetupError(no_node(error)) from None
    except RpcFailure as failure:
        if failure.code != METHOD_NOT_FOUND:
            raise SetupError(f"--rpc: {client.name} does not answer {method}: {failure}") from None
        try:
            await client.call(KNOWN_METHOD)
        except (EndpointError, RpcFailure):
            raise SetupError(no_rollup_node(client.name)) from None
        raise SetupError(f"--rpc: {client.name} does not answer {method}: {not_found}") from None
    finally:
        await client.close()
