"""THE METHOD TABLE: every JSON-RPC method with its arguments and what it needs to be switched on (node-behaviour
1.4, 1.6, 1.9)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.status import Subscriber
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.control import (
    ControlResponse,
    OutputRequest,
    OutputResponse,
    PostUnsafePayloadRequest,
    ResetDerivationRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse
from rollup_node.stages.protocol.block_hash import payload_block_hash
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash
from rollup_node.stages.rpc import responses as shapes
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.jsonrpc import (
    CallError,
    Parser,
    block_hash,
    boolean,
    envelope,
    ip_address,
    quantity,
    subnet,
    text,
    unknown_method,
)
from rollup_node.stages.rpc.process.drops_client import DropsClient
from rollup_node.stages.rpc.process.process_client import AskClient

SEQUENCER_NOT_ENABLED = "sequencer is not enabled"
SHOWN_SECONDS = 1.0


class Node:
    """What the rpc process knows of the others, and how it asks them."""

    def __init__(self, config: RpcConfig, bus: Bus) -> None:
        self.config = config
        self.l1: L1Heads | None = None
        self.engine: EngineStatus | None = None
        self.derivation: DerivationStatus | None = None
        self.health: dict[str, tuple[str, ...]] = {}
        self._news = asyncio.Event()
        processes = ("l1", "blobs", "derivation", "engine", *(("p2p",) if config.p2p else ()))
        self.subscribers: dict[str, Subscriber] = {process: self._subscribe(bus, process) for process in processes}
        self.control = AskClient(bus, "engine.control")
        self.drops = DropsClient(bus)
        self.peer_calls = AskClient(bus, "p2p.control") if config.p2p else None

    def sync_status(self) -> dict[str, Any]:
        """The sync status of now."""
        return shapes.sync_status(self.l1, self.engine, self.derivation)

    async def shows(self, condition: Callable[[EngineStatus], bool]) -> None:
        """Waits, not for long, until what the engine process has answered is in its status as well."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SHOWN_SECONDS):
                while self.engine is not None and not condition(self.engine):
                    self._news.clear()
                    await self._news.wait()

    def _with_finality(self, status: EngineStatus) -> EngineStatus:
        """While a start is being looked for, what was final stays so."""
        last = self.engine
        if status.unsafe is not None or last is None:
            return status
        return msgspec.structs.replace(status, finalized=last.finalized, pending_safe=last.pending_safe)

    def _subscribe(self, bus: Bus, process: str) -> Subscriber:
        def take(message: Any) -> None:
            if isinstance(message, Health):
                self.health[process] = message.problems
            elif isinstance(message, L1Heads):
                self.l1 = message
            elif isinstance(message, EngineStatus):
                self.engine = self._with_finality(message)
                self._news.set()
            elif isinstance(message, DerivationStatus):
                self.derivation = message

        return bus.subscribe(f"status.{process}", take)


# --- optimism ------------------------------------------------------------------------------------------------------


async def _sync_status(node: Node) -> Any:
    return node.sync_status()


async def _output_at_block(node: Node, number: int) -> Any:
    found = await node.control.ask(lambda asked: OutputRequest(asked, number))
    if not isinstance(found, OutputResponse) or found.error is not None:
        raise CallError(found.error or "the engine process gave no output")
    return shapes.output(found, shapes.sync_status(node.l1, found.status, node.derivation))


async def _rollup_config(node: Node) -> Any:
    return rollup_config_object(node.config.rollup)


async def _version(node: Node) -> Any:
    return node.config.version


async def _safe_head_at_l1_block(node: Node, number: int) -> Any:
    raise CallError(f"failed to get safe head at l1 block {hex(number)}: safe head database not enabled")


async def _dependency_set(node: Node) -> Any:
    raise CallError("not found")


# --- explain -------------------------------------------------------------------------------------------------------


async def _drops(node: Node) -> Any:
    kept = await node.drops.ask()
    return {"total": kept.total, "drops": [drop.shown() for drop in kept.drops]}


# --- admin ---------------------------------------------------------------------------------------------------------


async def _done(node: Node, question: Callable[[int], Any]) -> ControlResponse:
    done = await node.control.ask(question)
    if not isinstance(done, ControlResponse) or done.error is not None:
        raise CallError(done.error or "the engine process gave no answer to this")
    return done


async def _start_sequencer(node: Node, head: Hash) -> Any:
    await _done(node, lambda asked: StartSequencerRequest(asked, head))
    await node.shows(lambda status: status.sequencer_active)


async def _stop_sequencer(node: Node) -> Any:
    done = await _done(node, StopSequencerRequest)
    await node.shows(lambda status: not status.sequencer_active)
    return to_hex(done.head or bytes(32))


async def _sequencer_active(node: Node) -> Any:
    return node.engine is not None and node.engine.sequencer_active


async def _reset_pipeline(node: Node) -> Any:
    await _done(node, ResetDerivationRequest)


async def _post_unsafe_payload(node: Node, payload: ExecutionPayload) -> Any:
    actual = payload_block_hash(payload)
    if actual != payload.block_hash:
        claimed = to_hex(payload.block_hash)
        raise CallError(f"payload has bad block hash: {claimed}, actual block hash is: {to_hex(actual)}")
    await _done(node, lambda asked: PostUnsafePayloadRequest(asked, payload))


async def _override_leader(node: Node) -> Any:
    if node.engine is None or not node.engine.sequencer_enabled:
        raise CallError(SEQUENCER_NOT_ENABLED)


async def _conductor_enabled(node: Node) -> Any:
    return False


# --- opp2p ---------------------------------------------------------------------------------------------------------


def _of_peers(method: str) -> Callable[..., Awaitable[Any]]:
    """A method that the p2p process answers."""

    async def run(node: Node, argument: object = "") -> Any:
        if node.peer_calls is None:
            raise unknown_method(f"opp2p_{method}")
        answer = await node.peer_calls.ask(lambda asked: PeerRequest(asked, method, str(argument)))
        if not isinstance(answer, PeerResponse) or answer.error is not None:
            raise CallError(answer.error, answer.code)
        return orjson.Fragment(answer.result)

    return run


async def _modules(node: Node) -> Any:
    return {namespace: "1.0" for namespace in sorted({method.namespace for method in methods_of(node.config)})}


@dataclass(frozen=True)
class Method:
    """One row; `admin` rows exist only with `rpc.enable-admin`, `opp2p` rows unless `p2p.disable`."""

    name: str
    run: Callable[..., Awaitable[Any]]
    parameters: tuple[Parser, ...] = ()

    @property
    def namespace(self) -> str:
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
    Method("admin_resetDerivationPipeline", _reset_pipeline),
    Method("admin_postUnsafePayload", _post_unsafe_payload, (envelope,)),
    Method("admin_overrideLeader", _override_leader),
    Method("admin_conductorEnabled", _conductor_enabled),
    *(
        Method(f"opp2p_{name}", _of_peers(name), parameters)
        for name, parameters in (
            ("self", ()),
            ("peers", (boolean,)),
            ("peerStats", ()),
            ("discoveryTable", ()),
            ("blockPeer", (text,)),
            ("unblockPeer", (text,)),
            ("listBlockedPeers", ()),
            ("blockAddr", (ip_address,)),
            ("unblockAddr", (ip_address,)),
            ("listBlockedAddrs", ()),
            ("blockSubnet", (subnet,)),
            ("unblockSubnet", (subnet,)),
            ("listBlockedSubnets", ()),
            ("protectPeer", (text,)),
            ("unprotectPeer", (text,)),
            ("connectPeer", (text,)),
            ("disconnectPeer", (text,)),
            ("diagnosis", ()),
        )
    ),
)


def methods_of(config: RpcConfig) -> tuple[Method, ...]:
    """The methods that are switched on."""
    switches = {"admin": config.enable_admin, "opp2p": config.p2p}
    return tuple(method for method in METHODS if switches.get(method.namespace, True))
