"""The methods of the `opstack` namespace, by which a test sequencer builds blocks with this node [RPC61 to RPC66]."""

from collections.abc import Callable
from typing import Any

from rollup_node.stages.messages.control import BuildResponse, CommitBlockRequest, OpenBlockRequest, SealBlockRequest
from rollup_node.stages.messages.p2p import PeerResponse, PublishSignedRequest
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import BlockId
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.parameters import PayloadInfo, SignedPayload
from rollup_node.stages.rpc.process.node_view import NodeView


async def open_block(node: NodeView, parent: BlockId, attributes: PayloadAttributes) -> Any:
    """opstack_openBlockV1."""
    response = await _build(node, lambda request_id: OpenBlockRequest(request_id, parent, attributes))
    return {"id": to_hex(response.payload_id or bytes(8)), "timestamp": attributes.timestamp}


async def cancel_block(node: NodeView, info: PayloadInfo) -> Any:
    """opstack_cancelBlockV1."""
    await _build(node, lambda request_id: SealBlockRequest(request_id, info.id, info.timestamp, True))


async def seal_block(node: NodeView, info: PayloadInfo) -> Any:
    """opstack_sealBlockV1."""
    response = await _build(node, lambda request_id: SealBlockRequest(request_id, info.id, info.timestamp, False))
    return None if response.payload is None else envelope_to_json(response.payload)


async def commit_block(node: NodeView, signed: SignedPayload) -> Any:
    """opstack_commitBlockV1."""
    await _build(node, lambda request_id: CommitBlockRequest(request_id, signed.payload))


async def publish_block(node: NodeView, signed: SignedPayload) -> Any:
    """opstack_publishBlockV1."""
    if node.peers is None:
        raise JsonRpcError(SERVER_ERROR, "P2P not enabled")
    response = await node.peers.request(
        lambda request_id: PublishSignedRequest(request_id, signed.payload, signed.signature)
    )
    if not isinstance(response, PeerResponse) or response.error is not None:
        raise JsonRpcError(SERVER_ERROR, response.error)


async def _build(node: NodeView, new_request: Callable[[int], Any]) -> BuildResponse:
    response = await node.control.request(new_request)
    if not isinstance(response, BuildResponse):
        raise JsonRpcError(SERVER_ERROR, "the engine process gave no answer to this")
    if response.error is not None:
        raise JsonRpcError(response.code, response.error)
    return response
