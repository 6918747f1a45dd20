"""THE METHOD TABLE: every JSON-RPC method with its parameters [RPC10, RPC25 to RPC60, RPC67 to RPC77, RPC85]."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.status import Subscriber
from rollup_node.stages.io.log import get_logger, parse_level, set_level_of_node
from rollup_node.stages.messages.base import Health
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
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus, Halting
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse
from rollup_node.stages.protocol.block_hash import payload_block_hash
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.jsonrpc_codes import SERVER_ERROR
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash
from rollup_node.stages.rpc import responses
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, method_not_found
from rollup_node.stages.rpc.parameters import Parser, block_hash, boolean, ip_address, quantity, string, subnet
from rollup_node.stages.rpc.process.drops_client import DropsClient
from rollup_node.stages.rpc.process.process_client import ProcessClient

STATUS_SECONDS = 1.0
MAX_SHOWN = 100

log = get_logger("rpc")


class NodeView:
    """The rpc process's view of the other processes: their last published states, and clients of their channels."""

    def __init__(self, config: RpcConfig, bus: Bus) -> None:
        self.config = config
        self.l1: L1Heads | None = None
        self.engine: EngineStatus | None = None
        self.derivation: DerivationStatus | None = None
        self.health: dict[str, tuple[str, ...]] = {}
        self.on_halt: Callable[[], None] = lambda: None
        self._engine_changed = asyncio.Event()
        self.hashing = asyncio.Lock()
        processes = ("l1", "blobs", "derivation", "engine", *(("p2p",) if config.p2p else ()))
        self._subscribers: dict[str, Subscriber] = {process: self._subscribe(bus, process) for process in processes}
        self.control = ProcessClient(bus, "engine.control")
        self.drops = DropsClient(bus)
        self.peers = ProcessClient(bus, "p2p.control") if config.p2p else None

    def ages(self) -> dict[str, float | None]:
        """Seconds since each process published last; None before its first status."""
        now = time.monotonic()
        last_seen = {process: subscriber.last_seen for process, subscriber in self._subscribers.items()}
        return {process: None if at is None else now - at for process, at in last_seen.items()}

    def sync_status(self) -> dict[str, Any]:
        """The result of optimism_syncStatus at this moment."""
        return responses.sync_status(self.l1, self.engine, self.derivation)

    async def engine_shows(self, condition: Callable[[EngineStatus], bool]) -> None:
        """Waits, at most STATUS_SECONDS, until the engine's status meets the condition. A response and the status that
        follows from it come on two channels, so a client's next call would otherwise see the old status."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                while self.engine is not None and not condition(self.engine):
                    self._engine_changed.clear()
                    await self._engine_changed.wait()

    def _subscribe(self, bus: Bus, process: str) -> Subscriber:
        def on_status(message: Any) -> None:
            if isinstance(message, Health):
                self.health[process] = message.problems
            elif isinstance(message, L1Heads):
                self.l1 = message
            elif isinstance(message, EngineStatus):
                self.engine = self._with_finality(message)
                self._engine_changed.set()
            elif isinstance(message, Halting):
                self.on_halt()
            elif isinstance(message, DerivationStatus):
                self.derivation = message

        return bus.subscribe(f"status.{process}", on_status)

    def _with_finality(self, status: EngineStatus) -> EngineStatus:
        """The status with the finalized head kept during a start search: what was final stays final."""
        last = self.engine
        if status.unsafe is not None or last is None:
            return status
        return msgspec.structs.replace(status, finalized=last.finalized, pending_safe=last.pending_safe)


# --- optimism ------------------------------------------------------------------------------------------------------


async def _sync_status(node: NodeView) -> Any:
    return node.sync_status()


async def _output_at_block(node: NodeView, number: int) -> Any:
    response = await node.control.request(lambda request_id: OutputRequest(request_id, number))
    if not isinstance(response, OutputResponse) or response.error is not None:
        raise JsonRpcError(SERVER_ERROR, response.error or "the engine process gave no output")
    return responses.output(response, responses.sync_status(node.l1, response.status, node.derivation))


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


@dataclass(frozen=True)
class Method:
    """One row of the table: `run` is called with the view and the parsed parameters and returns a JSON value; it
    raises JsonRpcError to answer with an error."""

    name: str
    run: Callable[..., Awaitable[Any]]
    parsers: tuple[Parser, ...] = ()

    @property
    def namespace(self) -> str:
        """The part of the name before the underscore."""
        return self.name.split("_")[0]


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
    Method("admin_setLogLevel", _set_log_level, (string,)),
    Method("admin_overrideLeader", _override_leader),
    Method("admin_conductorEnabled", _conductor_enabled),
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
    """The methods whose namespaces are switched on: `admin` by `rpc.enable-admin`, `opp2p` unless `p2p.disable`."""
    switches = {"admin": config.enable_admin, "opp2p": config.p2p}
    return tuple(method for method in METHODS if switches.get(method.namespace, True))
