"""THE METHOD TABLE: every JSON-RPC method with its parameters [RPC10, RPC25 to RPC65, RPC67 to RPC77, RPC85]."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from rollup_node.stages.io.log.logger import get_logger, parse_level, set_level_of_node
from rollup_node.stages.messages.control import (
    ControlResponse,
    OutputRequest,
    OutputResponse,
    OverrideLeaderRequest,
    PostUnsafePayloadRequest,
    ResetDerivationRequest,
    SafeHeadRequest,
    SafeHeadResponse,
    SetRecoverModeRequest,
    SetSdmOptInRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.engine_json import attributes_from_json, envelope_from_json
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.protocol.types import Hash
from rollup_node.stages.rpc import responses
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, method_not_found
from rollup_node.stages.rpc.parameters import (
    block_hash,
    block_id,
    boolean,
    ip_address,
    payload_info,
    quantity,
    signed_envelope,
    string,
    subnet,
)
from rollup_node.stages.rpc.process import opstack, superroot
from rollup_node.stages.rpc.process.method import Method
from rollup_node.stages.rpc.process.node_view import NodeView

MAX_SHOWN = 100

log = get_logger("rpc")


# --- optimism ------------------------------------------------------------------------------------------------------


async def _sync_status(node: NodeView) -> Any:
    return node.sync_status()


async def _output_at_block(node: NodeView, number: int) -> Any:
    derivation = node.derivation
    response = await node.control.request(lambda request_id: OutputRequest(request_id, number))
    if not isinstance(response, OutputResponse) or response.error is not None:
        raise JsonRpcError(SERVER_ERROR, response.error or "the engine process gave no output")
    return responses.output(response, responses.sync_status(node.l1, response.status, derivation))


async def _rollup_config(node: NodeView) -> Any:
    return rollup_config_object(node.config.rollup)


async def _version(node: NodeView) -> Any:
    return node.config.version


async def _safe_head_at_l1_block(node: NodeView, number: int) -> Any:
    if not node.config.safedb:
        text = f"failed to get safe head at l1 block {hex(number)}: safe head database not enabled"
        raise JsonRpcError(SERVER_ERROR, text)
    response = await node.control.request(lambda request_id: SafeHeadRequest(request_id, number))
    if not isinstance(response, SafeHeadResponse) or response.error is not None:
        raise JsonRpcError(SERVER_ERROR, response.error or "the engine process gave no safe head")
    return {"l1Block": responses.block_id(response.l1_block), "safeHead": responses.block_id(response.safe_head)}


async def _dependency_set(node: NodeView) -> Any:
    if node.config.dependency_set is None:
        raise JsonRpcError(SERVER_ERROR, "not found")
    return responses.dependency_set(node.config.dependency_set)


# --- explain -------------------------------------------------------------------------------------------------------


async def _drops(node: NodeView) -> Any:
    if node.drops is None:
        raise JsonRpcError(SERVER_ERROR, "nothing is dropped here: this node does not derive, it follows another one")
    kept = await node.drops.fetch()
    return {"total": kept.total, "drops": [drop.shown() for drop in kept.drops]}


# --- admin ---------------------------------------------------------------------------------------------------------


async def _control(node: NodeView, new_request: Callable[[int], Any]) -> ControlResponse:
    """The engine process's response; raises JsonRpcError with its error."""
    response = await node.control.request(new_request)
    if not isinstance(response, ControlResponse) or response.error is not None:
        raise JsonRpcError(SERVER_ERROR, response.error or "the engine process gave no answer to this")
    return response


async def _start_sequencer(node: NodeView, head: Hash) -> Any:
    await _control(node, lambda request_id: StartSequencerRequest(request_id, head))
    await node.engine_shows(lambda status: status.sequencer_active)


async def _stop_sequencer(node: NodeView) -> Any:
    response = await _control(node, StopSequencerRequest)
    await node.engine_shows(lambda status: not status.sequencer_active)
    return to_hex(response.head or bytes(32))


async def _sequencer_active(node: NodeView) -> Any:
    return node.engine is not None and node.engine.sequencer_active


async def _reset_derivation_pipeline(node: NodeView) -> Any:
    await _control(node, ResetDerivationRequest)


async def _post_unsafe_payload(node: NodeView, payload: ExecutionPayload) -> Any:
    # The roots of the largest payloads take a second; only a thread lets the loop go on.
    async with node.hashing:
        actual = await asyncio.to_thread(payload_block_hash, payload)
    if actual != payload.block_hash:
        claimed = to_hex(payload.block_hash)
        text = f"payload has bad block hash: {claimed}, actual block hash is: {to_hex(actual)}"
        raise JsonRpcError(SERVER_ERROR, text)
    await _control(node, lambda request_id: PostUnsafePayloadRequest(request_id, payload))


async def _set_recover_mode(node: NodeView, mode: bool) -> Any:
    await _control(node, lambda request_id: SetRecoverModeRequest(request_id, mode))


async def _set_sdm_opt_in(node: NodeView, enabled: bool) -> Any:
    await _control(node, lambda request_id: SetSdmOptInRequest(request_id, enabled))
    await node.engine_shows(lambda status: status.sdm_opt_in is enabled)


async def _sdm_status(node: NodeView) -> Any:
    if node.engine is None:
        raise JsonRpcError(SERVER_ERROR, "the engine process has not said anything yet")
    if not node.engine.sequencer_enabled:
        raise JsonRpcError(SERVER_ERROR, "sequencer is not enabled")
    return responses.sdm_status(node.config.rollup, node.engine)


async def _set_log_level(node: NodeView, name: str) -> Any:
    try:
        level = parse_level(name)
    except ValueError:
        raise JsonRpcError(SERVER_ERROR, f"unknown level: {name[:MAX_SHOWN]}") from None
    log.info("log level changed", level=level.label)
    set_level_of_node(level)


async def _override_leader(node: NodeView) -> Any:
    await _control(node, OverrideLeaderRequest)


async def _conductor_enabled(node: NodeView) -> Any:
    return node.config.conductor_enabled


# --- opp2p ---------------------------------------------------------------------------------------------------------


def _peer_method(method: str) -> Callable[..., Awaitable[Any]]:
    """The handler of a method that the p2p process answers."""

    async def run(node: NodeView, argument: object = "") -> Any:
        if node.peers is None:
            raise method_not_found(f"opp2p_{method}")
        response = await node.peers.request(lambda request_id: PeerRequest(request_id, method, str(argument)))
        if not isinstance(response, PeerResponse) or response.error is not None:
            raise JsonRpcError(response.code, response.error)
        return orjson.Fragment(response.result)

    return run


async def _modules(node: NodeView) -> Any:
    return {namespace: "1.0" for namespace in sorted({method.namespace for method in enabled_methods(node.config)})}


METHODS: tuple[Method, ...] = (
    Method("optimism_syncStatus", _sync_status),
    Method("optimism_outputAtBlock", _output_at_block, (quantity,)),
    Method("optimism_safeHeadAtL1Block", _safe_head_at_l1_block, (quantity,)),
    Method("optimism_rollupConfig", _rollup_config),
    Method("optimism_dependencySet", _dependency_set),
    Method("optimism_version", _version),
    Method("explain_drops", _drops),
    Method("health_status", _version),
    Method("rpc_modules", _modules),
    Method("admin_startSequencer", _start_sequencer, (block_hash,)),
    Method("admin_stopSequencer", _stop_sequencer),
    Method("admin_sequencerActive", _sequencer_active),
    Method("admin_resetDerivationPipeline", _reset_derivation_pipeline),
    Method("admin_postUnsafePayload", _post_unsafe_payload, (envelope_from_json,)),
    Method("admin_setRecoverMode", _set_recover_mode, (boolean,)),
    Method("admin_setSdmPostExecOptIn", _set_sdm_opt_in, (boolean,)),
    Method("admin_sdmStatus", _sdm_status),
    Method("admin_setLogLevel", _set_log_level, (string,)),
    Method("admin_overrideLeader", _override_leader),
    Method("admin_conductorEnabled", _conductor_enabled),
    Method("superroot_atTimestamp", superroot.at_timestamp, (quantity,)),
    Method("opstack_openBlockV1", opstack.open_block, (block_id, attributes_from_json)),
    Method("opstack_cancelBlockV1", opstack.cancel_block, (payload_info,)),
    Method("opstack_sealBlockV1", opstack.seal_block, (payload_info,)),
    Method("opstack_commitBlockV1", opstack.commit_block, (signed_envelope,)),
    Method("opstack_publishBlockV1", opstack.publish_block, (signed_envelope,)),
    *(
        Method(f"opp2p_{name}", _peer_method(name), parsers)
        for name, parsers in (
            ("self", ()),
            ("peers", (boolean,)),
            ("peerStats", ()),
            ("discoveryTable", ()),
            ("blockPeer", (string,)),
            ("unblockPeer", (string,)),
            ("listBlockedPeers", ()),
            ("blockAddr", (ip_address,)),
            ("unblockAddr", (ip_address,)),
            ("listBlockedAddrs", ()),
            ("blockSubnet", (subnet,)),
            ("unblockSubnet", (subnet,)),
            ("listBlockedSubnets", ()),
            ("protectPeer", (string,)),
            ("unprotectPeer", (string,)),
            ("connectPeer", (string,)),
            ("disconnectPeer", (string,)),
            ("diagnosis", ()),
        )
    ),
)


def enabled_methods(config: RpcConfig) -> tuple[Method, ...]:
    """The methods whose namespaces are switched on: `admin` by `rpc.enable-admin`, `opstack` by
    `experimental.sequencer-api`, `opp2p` unless `p2p.disable`."""
    switches = {"admin": config.enable_admin, "opp2p": config.p2p, "opstack": config.sequencer_api}
    return tuple(method for method in METHODS if switches.get(method.namespace, True))
