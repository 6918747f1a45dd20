"""THE METHOD TABLE: every JSON-RPC method with its parameters [RPC10, RPC25 to RPC65, RPC67 to RPC77, RPC85]."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import orjson

from rollup_node.stages.io.files.private_files import read_private_file
from rollup_node.stages.io.log.logger import Logger, parse_level, set_level_of_node
from rollup_node.stages.io.task import ReloadResult
from rollup_node.stages.messages import control
from rollup_node.stages.messages.derivation import DropsRequest, DropsResponse
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse, PublishSignedRequest
from rollup_node.stages.protocol.block_refs import block_id_object
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.engine_json import attributes_from_json, envelope_from_json, envelope_to_json
from rollup_node.stages.protocol.errors import DECODE_ERRORS, SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes, payload_block_hash
from rollup_node.stages.protocol.types import BlockId, Hash
from rollup_node.stages.rpc import parameters, responses
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, method_not_found
from rollup_node.stages.rpc.parameters import Method, Parser, PayloadInfo, SignedPayload
from rollup_node.stages.rpc.process.node_view import NodeView, answer
from rollup_node.stages.rpc.process.supernode import Supernode, super_root, supernode_super_root

MAX_SHOWN = 100

log = Logger("rpc")

Handler = Callable[..., Awaitable[Any]]


# --- optimism ------------------------------------------------------------------------------------------------------
RELOAD_LOOK_SECONDS = 0.05
RELOAD_SECONDS = 30.0
"""More than the checks of new endpoints take."""
MAX_RELOAD_RESULT = 1 << 20


def shown(read: Callable[[Any], Any]) -> Handler:
    """Return the handler of a method that shows what the view of a node, or of a supernode, has."""

    async def run(view: NodeView | Supernode) -> Any:
        return read(view)

    return run


async def _output_at_block(node: NodeView, number: int) -> Any:
    derivation = node.seen.derivation
    response = await answer(node.control, control.OutputResponse, control.OutputRequest, number)
    return responses.output(response, responses.sync_status(node.seen.l1, response.status, derivation))


async def _safe_head_at_l1_block(node: NodeView, number: int) -> Any:
    if not node.config.safedb:
        text = f"failed to get safe head at l1 block {hex(number)}: safe head database not enabled"
        raise JsonRpcError(SERVER_ERROR, text)
    response = await answer(node.control, control.SafeHeadResponse, control.SafeHeadRequest, number)
    return {"l1Block": block_id_object(response.l1_block), "safeHead": block_id_object(response.safe_head)}


async def _dependency_set(node: NodeView) -> Any:
    if node.config.dependency_set is None:
        raise JsonRpcError(SERVER_ERROR, "not found")
    return responses.dependency_set(node.config.dependency_set)


# --- explain -------------------------------------------------------------------------------------------------------


async def _drops(node: NodeView) -> Any:
    if node.drops is None:
        raise JsonRpcError(SERVER_ERROR, "nothing is dropped here: this node does not derive, it follows another one")
    page: DropsResponse = await node.drops.request(DropsRequest, 0)
    drops = list(page.drops)
    while page.drops and (following := page.first + len(page.drops)) < page.total:
        page = await node.drops.request(DropsRequest, following)
        drops += page.drops
    return {"total": page.total, "drops": [drop.shown() for drop in drops]}


# --- admin ---------------------------------------------------------------------------------------------------------


def _ordered(request: Callable[..., Any]) -> Handler:
    """Return the handler of a method that passes its parameters on to the engine process."""

    async def run(node: NodeView, *params: object) -> Any:
        await answer(node.control, control.ControlResponse, request, *params)

    return run


async def _start_sequencer(node: NodeView, head: Hash) -> Any:
    await answer(node.control, control.ControlResponse, control.StartSequencerRequest, head)
    await node.engine_shows(lambda status: status.sequencer_active)


async def _stop_sequencer(node: NodeView) -> Any:
    response = await answer(node.control, control.ControlResponse, control.StopSequencerRequest)
    await node.engine_shows(lambda status: not status.sequencer_active)
    return to_hex(response.head or bytes(32))


async def _post_unsafe_payload(node: NodeView, payload: ExecutionPayload) -> Any:
    # The roots of the largest payloads take a second; only a thread lets the loop go on.
    async with node.hashing:
        actual = await asyncio.to_thread(payload_block_hash, payload)
    if actual != payload.block_hash:
        claimed = to_hex(payload.block_hash)
        text = f"payload has bad block hash: {claimed}, actual block hash is: {to_hex(actual)}"
        raise JsonRpcError(SERVER_ERROR, text)
    await answer(node.control, control.ControlResponse, control.PostUnsafePayloadRequest, payload)


async def _set_sdm_opt_in(node: NodeView, enabled: bool) -> Any:
    await answer(node.control, control.ControlResponse, control.SetSdmOptInRequest, enabled)
    await node.engine_shows(lambda status: status.sdm_opt_in is enabled)


async def _sdm_status(node: NodeView) -> Any:
    if node.seen.engine is None:
        raise JsonRpcError(SERVER_ERROR, "the engine process has not said anything yet")
    if not node.seen.engine.sequencer_enabled:
        raise JsonRpcError(SERVER_ERROR, "sequencer is not enabled")
    return responses.sdm_status(node.config.rollup, node.seen.engine)


async def _set_log_level(node: NodeView, name: str) -> Any:
    try:
        level = parse_level(name)
    except ValueError:
        raise JsonRpcError(SERVER_ERROR, f"unknown level: {name[:MAX_SHOWN]}") from None
    log.info("log level changed", level=level.label)
    set_level_of_node(level)


async def _reload(node: NodeView) -> Any:
    result = await reload_options(node.config.reload_file)
    return {"changed": result.changed, "restarted": result.restarted, "needRestart": result.need_restart}


# --- opp2p ---------------------------------------------------------------------------------------------------------


def _peer_method(method: str) -> Handler:
    """Return the handler of a method that the p2p process answers."""

    async def run(node: NodeView, argument: object = "") -> Any:
        if node.peers is None:
            raise method_not_found(f"opp2p_{method}")
        response = await answer(node.peers, PeerResponse, PeerRequest, method, str(argument))
        return orjson.Fragment(response.result)

    return run


def _peer_methods(parsers: tuple[Parser, ...], *names: str) -> list[Method]:
    return [Method(f"opp2p_{name}", _peer_method(name), parsers) for name in names]


# --- of the table, and of all chains of a supernode [SNO9] ------------------------------------------------------------


def _modules(methods: Iterable[Method]) -> dict[str, str]:
    return {namespace: "1.0" for namespace in sorted({method.namespace for method in methods})}


def _supernode_status(supernode: Supernode) -> dict[str, Any]:
    statuses = supernode.sync_statuses()
    return responses.supernode_sync_status(statuses, supernode.slowest(statuses))


# --- opstack: a test sequencer builds blocks [RPC61 to RPC66] --------------------------------------------------------


async def _open_block(node: NodeView, parent: BlockId, attributes: PayloadAttributes) -> Any:
    response = await answer(node.control, control.BuildResponse, control.OpenBlockRequest, parent, attributes)
    return {"id": to_hex(response.payload_id or bytes(8)), "timestamp": attributes.timestamp}


async def _cancel_block(node: NodeView, info: PayloadInfo) -> Any:
    await answer(node.control, control.BuildResponse, control.SealBlockRequest, *info, True)


async def _seal_block(node: NodeView, info: PayloadInfo) -> Any:
    response = await answer(node.control, control.BuildResponse, control.SealBlockRequest, *info, False)
    return None if response.payload is None else envelope_to_json(response.payload)


async def _commit_block(node: NodeView, signed: SignedPayload) -> Any:
    await answer(node.control, control.BuildResponse, control.CommitBlockRequest, signed.payload)


async def _publish_block(node: NodeView, signed: SignedPayload) -> Any:
    if node.peers is None:
        raise JsonRpcError(SERVER_ERROR, "P2P not enabled")
    await answer(node.peers, PeerResponse, PublishSignedRequest, *signed)


# --- the table -------------------------------------------------------------------------------------------------------


METHODS: tuple[Method, ...] = (
    Method("optimism_syncStatus", shown(lambda node: node.sync_status())),
    Method("optimism_outputAtBlock", _output_at_block, (parameters.quantity,)),
    Method("optimism_safeHeadAtL1Block", _safe_head_at_l1_block, (parameters.quantity,)),
    Method("optimism_rollupConfig", shown(lambda node: rollup_config_object(node.config.rollup))),
    Method("optimism_dependencySet", _dependency_set),
    Method("optimism_version", shown(lambda node: node.config.version)),
    Method("explain_drops", _drops),
    Method("health_status", shown(lambda node: node.config.version)),
    Method("rpc_modules", shown(lambda node: _modules(enabled_methods(node.config)))),
    Method("admin_startSequencer", _start_sequencer, (parameters.block_hash,)),
    Method("admin_stopSequencer", _stop_sequencer),
    Method("admin_sequencerActive", shown(lambda node: bool(node.seen.engine and node.seen.engine.sequencer_active))),
    Method("admin_resetDerivationPipeline", _ordered(control.ResetDerivationRequest)),
    Method("admin_postUnsafePayload", _post_unsafe_payload, (envelope_from_json,)),
    Method("admin_setRecoverMode", _ordered(control.SetRecoverModeRequest), (parameters.boolean,)),
    Method("admin_setSdmPostExecOptIn", _set_sdm_opt_in, (parameters.boolean,)),
    Method("admin_sdmStatus", _sdm_status),
    Method("admin_setLogLevel", _set_log_level, (parameters.string,)),
    Method("admin_reload", _reload),
    Method("admin_overrideLeader", _ordered(control.OverrideLeaderRequest)),
    Method("admin_conductorEnabled", shown(lambda node: node.config.conductor_enabled)),
    Method("superroot_atTimestamp", super_root, (parameters.quantity,)),
    Method("opstack_openBlockV1", _open_block, (parameters.block_id, attributes_from_json)),
    Method("opstack_cancelBlockV1", _cancel_block, (parameters.payload_info,)),
    Method("opstack_sealBlockV1", _seal_block, (parameters.payload_info,)),
    Method("opstack_commitBlockV1", _commit_block, (parameters.signed_envelope,)),
    Method("opstack_publishBlockV1", _publish_block, (parameters.signed_envelope,)),
    *_peer_methods((), "self", "peerStats", "discoveryTable", "listBlockedPeers", "listBlockedAddrs"),
    *_peer_methods((), "listBlockedSubnets", "diagnosis"),
    *_peer_methods((parameters.boolean,), "peers"),
    *_peer_methods((parameters.string,), "blockPeer", "unblockPeer", "protectPeer", "unprotectPeer"),
    *_peer_methods((parameters.string,), "connectPeer", "disconnectPeer"),
    *_peer_methods((parameters.ip_address,), "blockAddr", "unblockAddr"),
    *_peer_methods((parameters.subnet,), "blockSubnet", "unblockSubnet"),
)


SUPERNODE_METHODS: tuple[Method, ...] = (
    Method("supernode_syncStatus", shown(_supernode_status)),
    Method("superroot_atTimestamp", supernode_super_root, (parameters.quantity,)),
    Method("heartbeat_check", shown(lambda supernode: to_hex(os.urandom(4)))),
    Method("health_status", shown(lambda supernode: supernode.config.version)),
    Method("rpc_modules", shown(lambda supernode: _modules(SUPERNODE_METHODS))),
)
"""The methods of the root path of a supernode [SNO7]."""


def enabled_methods(config: RpcConfig) -> tuple[Method, ...]:
    """Return the methods whose namespaces are switched on by options."""
    switches = {"admin": config.enable_admin, "opp2p": config.p2p, "opstack": config.sequencer_api}
    return tuple(method for method in METHODS if switches.get(method.namespace, True))


async def reload_options(file: str) -> ReloadResult:
    """Have the supervisor, our parent, read the options again; return the result that it writes into `file` [RPC99].

    Raises JsonRpcError if it refuses."""
    if not file:
        raise JsonRpcError(SERVER_ERROR, "this program has nothing to read again")
    began = time.monotonic()
    os.kill(os.getppid(), signal.SIGUSR1)
    while time.monotonic() < began + RELOAD_SECONDS:
        with suppress(OSError, *DECODE_ERRORS):
            result = msgspec.json.decode(read_private_file(Path(file), MAX_RELOAD_RESULT), type=ReloadResult)
            if result.began >= began:
                if result.error:
                    raise JsonRpcError(SERVER_ERROR, f"reload refused, nothing is changed: {result.error}")
                return result
        await asyncio.sleep(RELOAD_LOOK_SECONDS)
    raise JsonRpcError(SERVER_ERROR, f"the reload has not ended within {RELOAD_SECONDS:g} s: see the log")
