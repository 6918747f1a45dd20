"""The engine core with a model engine, a small L1 and a derivation that works, in virtual time."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.derivation.pipeline.batch_attributes import block_of
from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.calls import (
    CallPurpose,
    CommitPayload,
    CoreAnswer,
    FollowStatus,
    GetFollowStatus,
    GetL1BlockRef,
    GetLeader,
    Instant,
    PendingCall,
)
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.calls.safe_head_entries import (
    FindSafeHeads,
    KeepSafeHeads,
    ResetSafeHeads,
    SafeHeadEntry,
)
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.engine_core import EngineCore, PeerRequest
from rollup_node.stages.engine.starts.el_sync import ELSync
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import (
    L1AtSafeHeadRequest,
    OutputRequest,
    OutputResponse,
    SafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import (
    AttributesAhead,
    AttributesOutcome,
    AttributesReady,
    AttributesResult,
    EngineStatus,
    L2BlocksRequest,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.interop import ChainVerdict, DeniedBlock, Verdicts
from rollup_node.stages.messages.l1 import L1BlockResponse, L1Heads
from rollup_node.stages.messages.p2p import LatestBlocksResponse, PayloadRequest, PayloadResponse, UnsafeBlock
from rollup_node.stages.p2p.blocks.latest_blocks import LatestBlocks
from rollup_node.stages.p2p.signer.signed_blocks import (
    BlockFate,
    BlockRecord,
    KeptPayloads,
    SignedBlocks,
    signing_request,
)
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, Hash, L2BlockRef
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture
from tests.support.engine.model_engine import ModelEngine
from tests.support.engine.safe_heads import SafeHeadModel


class KeptBlocks:
    """What the p2p process keeps of the blocks that a sequencer published, and their payloads.

    `signed` are the blocks that may be signed, `refused` the others, in the order in which they were published."""

    def __init__(self, chain: ChainFixture) -> None:
        self._chain = chain
        self._blocks, self._kept = SignedBlocks(), KeptPayloads()
        self.signed: list[ExecutionPayload] = []
        self.refused: list[ExecutionPayload] = []

    def publish(self, payload: ExecutionPayload, parent: L2BlockRef, derived: int) -> None:
        """Take a block over that was sequenced while the chain up to number `derived` followed from L1."""
        request = signing_request(self._chain.rollup, payload, parent, derived)
        refusal, _ = self._blocks.decide(request, lambda number: self._chain.l1_ref(number).hash)
        self._kept.add(payload.block_number, payload.block_hash, sum(map(len, payload.transactions)))
        (self.signed if refusal is None else self.refused).append(payload)

    @property
    def last(self) -> BlockRecord | None:
        result = (self.find(item.number, item.hash) for item in self._kept.newest_first())
        return next((item for item in result if item is not None and item.fate is BlockFate.SIGNED), None)

    def find(self, number: int, block_hash: Hash) -> BlockRecord | None:
        return self._blocks.find(number, block_hash)

    def payload(self, block_hash: Hash) -> ExecutionPayload | None:
        return self._chain.payloads[block_hash] if self._kept.find(block_hash) else None


A = TypeVar("A")
DERIVATION, RPC, P2P = ProcessId(2, 1), ProcessId(6, 1), ProcessId(5, 1)


def config_of(chain: ChainFixture, **settings: Any) -> EngineConfig:
    """Return the configuration of an engine process on a chain."""
    fields = {"engine_kind": "geth", "rollup": chain.rollup, "l1_chain": chain.l1_chain, **settings}
    return EngineConfig("http://localhost/", bytes(32), 10.0, **fields)


class CoreHarness:
    """`open` are the calls that the test has not answered yet, `actions` all actions so far, `committed` the payloads
    that a working conductor was given, `record` the safe head database, `source` what a follow source answers, None
    while it is away, and `source_chain` what it answers when its chain is compared. The p2p process `keeps` what is
    published, and has the `latest` blocks, None while it does not answer. L1 has the blocks up to `l1_head`, and has
    delivered `l1_blocks`. Derivation requests a start until it has one; it derives one block at a time, and those after
    it ahead of the answer."""

    def __init__(self, chain: ChainFixture, engine: ModelEngine | None = None, **config: Any) -> None:
        self.chain = chain
        self.engine = ModelEngine(chain) if engine is None else engine
        self.core = EngineCore(config_of(chain, **config))
        self.now = Instant(float(GENESIS_TIME), 100.0)
        self.l1_head, self.l1_blocks = 105, 0
        self.open: list[PendingCall] = []
        self.actions: list[act.Action] = []
        self.committed: list[ExecutionPayload] = []
        self.source: FollowStatus | Unavailable | None = None
        self.source_chain: Unavailable | None = None
        self.record = SafeHeadModel()
        self.keeps = KeptBlocks(chain)
        self.latest: LatestBlocks | None = LatestBlocks(self.keeps)
        self.derivation = DERIVATION
        self.start: PipelineStart | None = None
        self.parent: L2BlockRef | None = None
        self.sequence = 0
        self.waiting: AttributesReady | None = None
        self.ahead: deque[AttributesReady] = deque()
        self.drain()

    @property
    def el_sync(self) -> ELSync:
        """The EL sync of the core."""
        return self.core.el_sync

    # --- the process -----------------------------------------------------------------------------------------------

    def drain(self) -> list[act.Action]:
        """Take the core's new actions, as its neighbours do."""
        fresh = self.core.take_actions()
        self.actions += fresh
        for position, action in enumerate(fresh):
            if isinstance(action, act.Send) and action.peer == self.derivation:
                assert isinstance(action.message, act.BlocksMessage)
                in_force = not any(isinstance(later, act.ResetStarted) for later in fresh[position:])
                self._take_from_engine(action.message, in_force)
        for action in fresh:
            if isinstance(action, act.PublishBlock):
                self.keeps.publish(action.payload, action.parent, action.derived)
            elif isinstance(action, act.RequestLatestBlocks) and self.latest is not None:
                self.core.on_message(LatestBlocksResponse(action.head, self.latest.above(action.head)), self.now)
            elif isinstance(action, act.RequestL1Blocks):
                for number in range(action.first, action.first + action.count):
                    if number <= self.l1_head:
                        self.core.on_message(L1BlockResponse(self.chain.l1(number)), self.now)
                        self.l1_blocks += 1
        return fresh

    def step(self) -> list[PendingCall]:
        """Take the calls that are due now; a second call returns none."""
        calls = self.core.next_calls(self.now)
        assert self.core.next_calls(self.now) == [], "a call is made once"
        self.open += calls
        self.drain()
        return calls

    def call_names(self) -> list[str]:
        """Return the kinds of the calls that are due now."""
        return [type(pending.call).__name__ for pending in self.step()]

    def answer(self, pending: PendingCall, answer: CoreAnswer | Any = ...) -> None:
        """Answers an open call, by default as an engine that works."""
        self.open.remove(pending)
        self.core.answer(pending, self.good_answer(pending) if answer is ... else answer, self.now)
        self.core.prepare()
        self.drain()

    def good_answer(self, pending: PendingCall) -> CoreAnswer:
        """Return what a working engine, L1 or conductor answers."""
        match pending.call:
            case GetFollowStatus(check_chain=check_chain):
                if check_chain and self.source_chain is not None:
                    return self.source_chain
                away = Unavailable("the follow source is away", code=Code.FOLLOW_UNREACHABLE)
                return away if self.source is None else self.source
            case GetLeader():
                return True
            case CommitPayload(payload=payload):
                self.committed.append(payload)
                return True
            case GetL1BlockRef(number=number):
                return self.chain.l1_ref(number) if number <= self.l1_head else None
            case L2BlocksRequest(reset=reset, first=first, last=last):
                return L2BlocksResponse(reset, first, last, (), "not read in this test")
            case OutputRequest(id=number):
                return OutputResponse(number, "not read in this test", None, ZERO_HASH, ZERO_HASH, ZERO_HASH, None)
            case L1AtSafeHeadRequest(id=number) if (entry := self.record.l1_of(pending.call.number)) is not None:
                return SafeHeadResponse(number, None, entry.l1_block, entry.safe_head)
            case SafeHeadRequest(id=number) | L1AtSafeHeadRequest(id=number):
                return SafeHeadResponse(number, "not read in this test", BlockId(0, ZERO_HASH), BlockId(0, ZERO_HASH))
            case SafeHeadEntry() | ResetSafeHeads() | KeepSafeHeads():
                self.record.write(pending.call)
                return True
            case FindSafeHeads():
                return self.record.find(pending.call)
            case PayloadRequest(id=number):
                return PayloadResponse(number, None, None)
            case call:
                return self.engine.answer(call)

    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        self.now = Instant(self.now.unix + seconds, self.now.monotonic + seconds)

    def run_until_idle(self, rounds: int = 200) -> None:
        """Answers all calls as a working engine until none is due now."""
        for _ in range(rounds):
            arrived = self.l1_blocks
            self.step()
            if self.open:
                self.answer(self.open[0])
            elif self.l1_blocks == arrived:
                return
        raise AssertionError(f"calls without end: {self.core.log.lines()[-20:]}")

    def run_others(self, work: CallPurpose) -> None:
        """Answers all calls but those of this work, until no other is due now."""
        for _ in range(200):
            self.step()
            others = [pending for pending in self.open if pending.purpose is not work]
            if not others:
                return
            self.answer(others[0])
        raise AssertionError(f"calls without end: {self.core.log.lines()[-20:]}")

    def pass_time(self, seconds: float) -> None:
        """Lets time pass, and answers all calls that are due then."""
        self.wait(seconds)
        self.run_until_idle()

    def sleep(self) -> None:
        """Lets time pass until the core has to act."""
        self.wait(max(0.001, self.core.wait_until(self.now) - self.now.monotonic))

    def head_call(self) -> PendingCall | None:
        """Return the open call that may move heads."""
        return next((pending for pending in self.open if pending.purpose.lane is None), None)

    def call(self, work: CallPurpose) -> PendingCall:
        """Return the open call of this work."""
        return next(pending for pending in self.open if pending.purpose is work)

    def until(self, kind: type, work: CallPurpose | None = None) -> PendingCall:
        """Works until a call of this kind, and of this work if given, is open."""
        for _ in range(300):
            self.step()
            for pending in self.open:
                if isinstance(pending.call, kind) and work in (None, pending.purpose):
                    return pending
            if self.open:
                self.answer(self.open[0])
            else:
                self.sleep()
        raise AssertionError(f"no such call: {self.core.log.lines()[-20:]}")

    def done(self, kind: type[A]) -> list[A]:
        """Return the actions of a kind so far."""
        return [action for action in self.actions if isinstance(action, kind)]

    def sent(self, kind: type[A]) -> list[A]:
        """Return the messages of a kind that were sent so far."""
        return [action.message for action in self.done(act.Send) if isinstance(action.message, kind)]

    def logged(self, text: str) -> list[Mapping[str, Any]]:
        """Return the fields of the lines of log with this text so far."""
        return [action.fields for action in self.done(act.LogLine) if action.text == text]

    # --- the neighbours --------------------------------------------------------------------------------------------

    def request(self, message: PeerRequest, peer: ProcessId = RPC) -> None:
        """A request of another process."""
        self.core.request(peer, message, self.now)
        self.drain()

    def move_l1(self, head: int, finalized: int | None = None) -> None:
        """L1 has other heads."""
        self.l1_head = head
        final = None if finalized is None else self.chain.l1_ref(finalized)
        self.core.on_message(L1Heads(self.chain.l1_ref(head), None, final), self.now)
        self.drain()

    def judge(
        self,
        verified: BlockId | None = None,
        final: BlockId | None = None,
        denied: Iterable[BlockId] = (),
        transition: int = 0,
        go_back: BlockId | None = None,
        activation: int = 0,
        chain_id: int | None = None,
    ) -> None:
        """The interop process publishes another state of this chain, or of another one with `chain_id`."""
        blocks = tuple(DeniedBlock(block.number, block.hash) for block in denied)
        verdict = ChainVerdict(verified, final, blocks, transition, go_back)
        chains = {self.chain.rollup.l2_chain_id if chain_id is None else chain_id: verdict}
        self.core.on_message(Verdicts(chains, activation, None, 0), self.now)
        self.drain()

    def gossip(self, payload: ExecutionPayload) -> None:
        """An unsafe block of a peer arrives."""
        if self.latest is not None:
            self.latest.add(payload)
        self.core.on_message(UnsafeBlock(payload), self.now)
        self.drain()

    def _take_from_engine(self, message: act.BlocksMessage, in_force: bool) -> None:
        """Take a message to derivation; `in_force` unless a reset has followed it in the same step."""
        if isinstance(message, PipelineStart):
            if in_force:
                heads = self.core.heads
                assert heads is not None and message.reset == self.core.status().reset, "a start in force"
                is_new = self.start is not None and message.reset != self.start.reset
                assert not is_new or message.safe_head == heads.safe == heads.pending_safe
            if self.start is None or message.reset != self.start.reset:
                self.start, self.parent, self.sequence, self.waiting = message, message.safe_head, 0, None
                self.ahead.clear()
            return
        if isinstance(message, AttributesResult) and self.start is not None and message.reset == self.start.reset:
            self._take_result(message)

    def _take_result(self, result: AttributesResult) -> None:
        """Blocks of a run are accepted in order; what was derived ahead of any other outcome counts no more."""
        waiting = self.waiting
        first = result.sequence - len(result.accepted)
        if waiting is None or not first <= waiting.sequence <= result.sequence:
            return
        parent, pairs = waiting.parent, list(enumerate(result.accepted, first))
        if result.outcome is AttributesOutcome.ACCEPTED:
            pairs.append((result.sequence, result.safe_head.hash))
        for sequence, block in pairs:
            if sequence >= waiting.sequence:
                assert self.chain.known[block].ref.parent_hash == parent.hash, "blocks are accepted in order"
                parent = self.chain.known[block].ref
        self.parent, self.sequence, self.waiting = result.safe_head, result.sequence, None
        while self.ahead and self.ahead[0].sequence <= result.sequence:
            self.ahead.popleft()
        if result.outcome is not AttributesOutcome.ACCEPTED:
            self.ahead.clear()

    def restart_derivation(self) -> None:
        """Derivation has a new life, which has no start."""
        self.derivation = ProcessId(self.derivation.slot, self.derivation.incarnation + 1)
        self.start = self.parent = self.waiting = None
        self.ahead.clear()

    def derive(self, *users: bytes, concluding: bool = True) -> None:
        """Derivation repeats what it needs: a start, another one after an L1 reorg, or that its attributes are
        processed; with none of these, it derives the next block from L1 block `l1_head`."""
        if self.start is None or self.parent is None:
            self.request(StartRequest(0, None), self.derivation)
            return
        if self.chain.l1_ref(self.parent.l1_origin.number).id != self.parent.l1_origin:
            self.request(StartRequest(self.start.reset, "L1 reorg"), self.derivation)
            return
        if self.waiting is None and self.ahead:
            self.waiting = msgspec.structs.replace(self.ahead.popleft(), parent=self.parent, parent_config=None)
        if self.waiting is None:
            self.sequence += 1
            origin = min(self.l1_head, max(self.parent.l1_origin.number, 100))
            attributes = self.chain.attributes(self.parent, origin, users)
            derived_from = self.chain.l1_ref(self.l1_head)
            self.waiting = AttributesReady(
                self.start.reset, self.sequence, self.parent, attributes, derived_from, concluding
            )
        self.request(self.waiting, self.derivation)

    def derive_block(self, *users: bytes, concluding: bool = True) -> None:
        """Derive a block, or begin with a start, until all that follows is done."""
        self.derive(*users, concluding=concluding)
        self.run_until_idle()

    def derive_ahead(self, count: int, *users: bytes, concluding: bool = False) -> None:
        """Derivation derives some more blocks of the span of the block that it waits for.

        The last may conclude it, from Holocene on each does."""
        last = self.ahead[-1] if self.ahead else self.waiting
        holocene = "holocene" in self.chain.rollup.fork_times
        fresh = []
        for index in range(count):
            if last is None:
                break
            output = AttributesReady(0, 0, last.parent, last.attributes, last.derived_from, last.concluding)
            built = block_of(self.chain.rollup, output)
            assert built is not None
            parent, config = built
            attributes = self.chain.attributes(parent, parent.l1_origin.number, users, config)
            ends = concluding and (holocene or index == count - 1)
            last = AttributesReady(
                last.reset, last.sequence + 1, parent, attributes, last.derived_from, ends, parent_config=config
            )
            fresh.append(last)
        self.ahead += fresh
        self.request(AttributesAhead(tuple(fresh)), self.derivation)

    def report_idle(self) -> None:
        """Derivation has used up all L1 blocks."""
        reset = self.start.reset if self.start is not None else 0
        self.core.on_message(DerivationStatus(reset, self.chain.l1_ref(self.l1_head), True), self.now)
        self.drain()

    # --- what the neighbours see -----------------------------------------------------------------------------------

    @property
    def status(self) -> EngineStatus:
        """The last status published."""
        return self.done(act.PublishStatus)[-1].status

    @property
    def heads(self) -> Heads:
        """The heads in force."""
        assert self.core.heads is not None
        return self.core.heads

    @property
    def unsafe(self) -> int:
        """The number of the unsafe head that was published last, -1 for none."""
        return -1 if self.status.unsafe is None else self.status.unsafe.number

    @property
    def safe(self) -> int:
        """The same of the safe head."""
        return -1 if self.status.safe is None else self.status.safe.number

    @property
    def responses(self) -> list[act.RpcResponse]:
        """All responses to rpc."""
        return [action.message for action in self.done(act.Send) if isinstance(action.message, act.RpcResponse)]

    @property
    def published(self) -> list[ExecutionPayload]:
        """The blocks that were published to peers."""
        return [action.payload for action in self.done(act.PublishBlock)]

    @property
    def failures(self) -> list[str]:
        """The errors of failed work."""
        return [action.error for action in self.done(act.WorkFailed)]

    @property
    def failing(self) -> set[str]:
        """The tasks that have failed and not recovered."""
        tasks: set[str] = set()
        for action in self.actions:
            if isinstance(action, act.WorkFailed):
                tasks.add(action.task)
            elif isinstance(action, act.WorkRecovered):
                tasks.discard(action.task)
        return tasks


def started(chain: ChainFixture, engine: ModelEngine | None = None, **config: Any) -> CoreHarness:
    """Return a harness whose start is confirmed and sent to derivation."""
    harness = CoreHarness(chain, engine, **config)
    harness.move_l1(harness.l1_head)
    harness.run_until_idle()
    harness.derive_block()
    assert harness.start is not None
    return harness
