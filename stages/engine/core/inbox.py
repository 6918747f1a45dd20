"""Messages of other processes into the engine core."""

from itertools import takewhile

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.attributes.attributes_row import SessionStep
from rollup_node.stages.engine.calls.actions import SendToRpc
from rollup_node.stages.engine.calls.calls import Instant
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.sequencer.build_api_row import BuildRequest
from rollup_node.stages.engine.sequencer.sequencer import NOT_ENABLED
from rollup_node.stages.engine.sequencer.sequencer_rows import SequencerRequest
from rollup_node.stages.messages import control
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import AttributesAhead, AttributesReady, L2BlocksRequest, StartRequest
from rollup_node.stages.messages.interop import Verdicts
from rollup_node.stages.messages.l1 import L1BlockResponse, L1Heads
from rollup_node.stages.messages.p2p import LatestBlocksResponse, PayloadRequest, UnsafeBlock
from rollup_node.stages.protocol.config import end_text

MAX_OVERLAP_BLOCKS = 4096

DerivationRequest = StartRequest | AttributesReady | AttributesAhead | L2BlocksRequest
AdminRequest = (
    SequencerRequest
    | control.ResetDerivationRequest
    | control.PostUnsafePayloadRequest
    | control.SetRecoverModeRequest
    | control.SetSdmOptInRequest
)
RpcRequest = AdminRequest | BuildRequest | control.OutputRequest | control.SafeHeadRequest | control.L1AtSafeHeadRequest
PeerRequest = DerivationRequest | RpcRequest | PayloadRequest
Notification = L1Heads | L1BlockResponse | DerivationStatus | Verdicts | UnsafeBlock | LatestBlocksResponse


class Inbox:
    """Takes messages one at a time; reads wait for their lanes."""

    def __init__(self, state: CoreState) -> None:
        self._state = state

    def on_message(self, message: Notification, now: Instant) -> None:
        """Take what l1, derivation and peers publish."""
        state = self._state
        match message:
            case L1Heads():
                self._l1_heads(message, now)
            case L1BlockResponse(block=block):
                state.sequencer.production.window.note_block(block)
            case DerivationStatus(reset=reset, current_l1=current) if reset == state.attributes.reset:
                state.finality.note_settled_l1(message.settled_l1)
                if message.idle and current is not None:
                    state.finality.note_idle(current)
                if current is not None and state.controller.heads is not None:
                    last = state.controller.heads.pending_safe
                    state.interop.on_derivation(current, message.idle, last, now.monotonic)
            case Verdicts():
                state.take_verdicts(message, now)
            case UnsafeBlock(payload=payload):
                state.add_unsafe(payload)
            case LatestBlocksResponse(head=head, blocks=blocks):
                # What a denied block and its descendants are is not what the engine has lost [IV5].
                kept = takewhile(lambda payload: not state.verification.denies(payload.block_hash), blocks)
                state.unsafe.lost.answer(head, tuple(kept))

    def _l1_heads(self, message: L1Heads, now: Instant) -> None:
        state = self._state
        if message.head is not None:
            state.sequencer.production.window.note_head(message.head)
            state.interop.on_l1_head(message.head, now.monotonic)
        finalized = message.finalized
        if not state.finality.note_finalized_l1(finalized) and finalized is not None:
            text = "ignoring a finalized L1 block below the last one"
            state.write("error", text, Code.L1_CONTRADICTS, number=finalized.number)

    def request(self, peer: ProcessId, message: PeerRequest, now: Instant) -> None:
        """Take what another process asks for."""
        match message:
            case StartRequest() | AttributesReady() | AttributesAhead() | L2BlocksRequest():
                if self._state.session.see(peer):
                    self._derivation(peer, message, now)
            case control.OutputRequest():
                self._state.output_row.add(peer, message)
            case control.SafeHeadRequest() | control.L1AtSafeHeadRequest():
                self._state.safe_head_row.add(peer, message)
            case PayloadRequest():
                self._state.payload_row.add(peer, message)
            case control.OpenBlockRequest() | control.SealBlockRequest() | control.CommitBlockRequest():
                self._state.build_api_row.request(peer, message)
            case _:
                self._admin(peer, message, now)

    def _derivation(self, peer: ProcessId, message: DerivationRequest, now: Instant) -> None:
        match message:
            case StartRequest():
                self._step(self._state.session.request_start(peer, message), message.reason, now)
            case AttributesReady():
                self._attributes(peer, message, now)
            case AttributesAhead(blocks=blocks):
                for derived in blocks:
                    self._attributes(peer, derived, now)
            case L2BlocksRequest() if 0 <= message.last - message.first < MAX_OVERLAP_BLOCKS:
                self._state.overlap_row.add(peer, message)

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
            self._state.write("info", "derivation requests a reset", reason=reason)
            self._state.request_reset(reason, now)
        elif step is SessionStep.RESTART:
            self._state.attributes.cancel_ahead()

    def _admin(self, peer: ProcessId, message: AdminRequest, now: Instant) -> None:
        match message:
            case control.StartSequencerRequest() | control.StopSequencerRequest() | control.OverrideLeaderRequest():
                self._state.leader_row.request(peer, message, now)
            case control.ResetDerivationRequest():
                if self._state.sequencer.add_reset((peer, message.id)):
                    self._state.request_reset("requested by admin_resetDerivationPipeline", now)
            case control.PostUnsafePayloadRequest():
                self._state.add_unsafe(message.payload)
                rollup = self._state.config.rollup
                foreign = rollup.is_foreign(message.payload.timestamp)
                self._respond(peer, message.id, end_text(rollup) if foreign else None)
            case control.SetRecoverModeRequest():
                self._state.sequencer.production.recover = message.mode
                self._respond(peer, message.id, None)
            case control.SetSdmOptInRequest():
                enabled = self._state.sequencer.sequencer.enabled
                if enabled:
                    self._state.sdm_opt_in = message.enabled
                    self._state.publish(now)
                self._respond(peer, message.id, None if enabled else NOT_ENABLED)

    def _respond(self, peer: ProcessId, number: int, error: str | None) -> None:
        self._state.do(SendToRpc(peer, control.ControlResponse(number, error, None)))
