"""Messages of other processes into the engine core."""

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.build_api_calls import BuildApiCalls, BuildRequest
from rollup_node.stages.engine.core.calls import Instant
from rollup_node.stages.engine.core.derivation_session import SessionStep
from rollup_node.stages.engine.core.requests import ReadQueue
from rollup_node.stages.engine.core.sequencer_admin import SequencerAdmin, SequencerRequest
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.machines.sequencer import NOT_ENABLED
from rollup_node.stages.messages.control import (
    CommitBlockRequest,
    ControlResponse,
    L1AtSafeHeadRequest,
    OpenBlockRequest,
    OutputRequest,
    OverrideLeaderRequest,
    PostUnsafePayloadRequest,
    ResetDerivationRequest,
    SafeHeadRequest,
    SealBlockRequest,
    SetRecoverModeRequest,
    SetSdmOptInRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import AttributesAhead, AttributesReady, L2BlocksRequest, StartRequest
from rollup_node.stages.messages.l1 import L1BlockResponse, L1Heads
from rollup_node.stages.messages.p2p import LatestBlocksResponse, PayloadRequest, UnsafeBlock
from rollup_node.stages.protocol.config import end_text

MAX_OVERLAP_REQUESTS = 8
MAX_OVERLAP_BLOCKS = 4096
MAX_OUTPUT_REQUESTS = 64
MAX_SAFE_HEAD_REQUESTS = 64
MAX_PAYLOAD_REQUESTS = 64

DerivationRequest = StartRequest | AttributesReady | AttributesAhead | L2BlocksRequest
AdminRequest = (
    SequencerRequest | ResetDerivationRequest | PostUnsafePayloadRequest | SetRecoverModeRequest | SetSdmOptInRequest
)
RpcRequest = AdminRequest | BuildRequest | OutputRequest | SafeHeadRequest | L1AtSafeHeadRequest
PeerRequest = DerivationRequest | RpcRequest | PayloadRequest
News = L1Heads | L1BlockResponse | DerivationStatus | UnsafeBlock | LatestBlocksResponse


class Inbox:
    """Takes messages one at a time; the queues of reads wait for their lanes."""

    def __init__(self, state: CoreState, sequencer_admin: SequencerAdmin, build_api: BuildApiCalls) -> None:
        self._state, self._sequencer_admin, self._build_api = state, sequencer_admin, build_api
        self.overlap_blocks = ReadQueue[L2BlocksRequest](MAX_OVERLAP_REQUESTS)
        self.outputs = ReadQueue[OutputRequest](MAX_OUTPUT_REQUESTS)
        self.safe_heads = ReadQueue[SafeHeadRequest | L1AtSafeHeadRequest](MAX_SAFE_HEAD_REQUESTS)
        self.peer_payloads = ReadQueue[PayloadRequest](MAX_PAYLOAD_REQUESTS)

    def news(self, message: News, now: Instant) -> None:
        """What l1, derivation and peers publish."""
        state = self._state
        match message:
            case L1Heads():
                self._l1_heads(message, now)
            case L1BlockResponse(block=block):
                state.production.window.note_block(block)
            case DerivationStatus(reset=reset, current_l1=current) if reset == state.attributes.reset:
                state.finality.note_settled_l1(message.settled_l1)
                if message.idle and current is not None:
                    state.finality.note_idle(current)
                if current is not None and state.controller.heads is not None:
                    last = state.controller.heads.pending_safe
                    state.interop.on_derivation(current, message.idle, last, now.monotonic)
            case UnsafeBlock(payload=payload):
                state.add_unsafe(payload)
            case LatestBlocksResponse(head=head, blocks=blocks):
                state.lost.answer(head, blocks)

    def _l1_heads(self, message: L1Heads, now: Instant) -> None:
        state = self._state
        if message.head is not None:
            state.production.window.note_head(message.head)
            state.interop.on_l1_head(message.head, now.monotonic)
        finalized = message.finalized
        if not state.finality.note_finalized_l1(finalized) and finalized is not None:
            state.do(act.L1FinalityRegressed(finalized))

    def request(self, peer: ProcessId, message: PeerRequest, now: Instant) -> None:
        """What another process asks for."""
        match message:
            case StartRequest() | AttributesReady() | AttributesAhead() | L2BlocksRequest():
                if self._state.session.see(peer):
                    self._derivation(peer, message, now)
            case OutputRequest():
                self.outputs.add(peer, message)
            case SafeHeadRequest() | L1AtSafeHeadRequest():
                self.safe_heads.add(peer, message)
            case PayloadRequest():
                self.peer_payloads.add(peer, message)
            case OpenBlockRequest() | SealBlockRequest() | CommitBlockRequest():
                self._build_api.request(peer, message)
            case _:
                self._admin(peer, message, now)

    # --- derivation ------------------------------------------------------------------------------------------------

    def _derivation(self, peer: ProcessId, message: DerivationRequest, now: Instant) -> None:
        match message:
            case StartRequest():
                self._step(self._state.session.request_start(peer, message), message.reason, now)
            case AttributesReady():
                self._attributes(peer, message, now)
            case AttributesAhead(blocks=blocks):
                for each in blocks:
                    self._attributes(peer, each, now)
            case L2BlocksRequest() if 0 <= message.last - message.first < MAX_OVERLAP_BLOCKS:
                self.overlap_blocks.add(peer, message)

    def _attributes(self, peer: ProcessId, derived: AttributesReady, now: Instant) -> None:
        step = self._state.session.attributes_step(peer, derived.reset)
        if step is SessionStep.TAKE:
            self._state.attributes.add(derived)
        else:
            self._step(step, None, now)

    def _step(self, step: SessionStep, reason: str | None, now: Instant) -> None:
        if step is SessionStep.SEND_START:
            self._state.send_start()
        elif step is SessionStep.SEARCH and reason is not None:
            self._state.do(act.ResetRequested(reason))
            self._state.request_reset(reason, now)
        elif step is SessionStep.RESTART:
            self._state.attributes.cancel_ahead()

    # --- admin -----------------------------------------------------------------------------------------------------

    def _admin(self, peer: ProcessId, message: AdminRequest, now: Instant) -> None:
        match message:
            case StartSequencerRequest() | StopSequencerRequest() | OverrideLeaderRequest():
                self._sequencer_admin.request(peer, message, now)
            case ResetDerivationRequest():
                if self._state.admin.add_reset((peer, message.id)):
                    self._state.request_reset("requested by admin_resetDerivationPipeline", now)
            case PostUnsafePayloadRequest():
                self._state.add_unsafe(message.payload)
                rollup = self._state.config.rollup
                foreign = rollup.is_foreign(message.payload.timestamp)
                self._respond(peer, message.id, end_text(rollup) if foreign else None)
            case SetRecoverModeRequest():
                self._state.production.set_recover(message.mode)
                self._respond(peer, message.id, None)
            case SetSdmOptInRequest():
                enabled = self._state.production.sequencer.enabled
                if enabled:
                    self._state.sdm_opt_in = message.enabled
                    self._state.publish(now)
                self._respond(peer, message.id, None if enabled else NOT_ENABLED)

    def _respond(self, peer: ProcessId, number: int, error: str | None) -> None:
        self._state.do(act.SendToRpc(peer, ControlResponse(number, error, None)))
