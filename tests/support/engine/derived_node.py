"""An engine core whose derivation is the real one, over an L1 with batches: what it derives follows from L1, from the
denied blocks and from its starts alone."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded, NeedL1Block, NeedL2Blocks
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.engine.calls.calls import CoreAnswer, PendingCall
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.messages.engine import (
    AttributesOutcome,
    AttributesReady,
    AttributesResult,
    L2BlocksRequest,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import InboxTransaction, L1Block, L2BlockContent, L2BlockRef
from rollup_node.tools.batcher import channels
from rollup_node.tools.batcher.batches import BatchBlock, span_batch
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.core_harness import CoreHarness
from tests.support.engine.model_engine import ModelEngine

CALLDATA = 2


class PostedChain(ChainFixture):
    """`inboxes` are the batcher's transactions by L1 block."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.inboxes: dict[int, list[InboxTransaction]] = {}

    def l1(self, number: int) -> L1Block:
        return msgspec.structs.replace(super().l1(number), inbox=tuple(self.inboxes.get(number, ())))

    def post(self, number: int, *spans: Sequence[L2BlockRef]) -> None:
        """Put a channel with these spans into an L1 block."""
        body = channels.channel_body([self._span(span) for span in spans], channels.Compression.ZLIB)
        for frame in channels.frames(keccak256(body)[:16], body, len(body) + 100):
            data = channels.batcher_data([frame])
            batcher = self.rollup.genesis.system_config.batcher
            self.inboxes.setdefault(number, []).append(InboxTransaction(CALLDATA, batcher, data, ()))

    def _span(self, refs: Sequence[L2BlockRef]) -> bytes:
        blocks = [
            BatchBlock(ref.parent_hash, ref.timestamp, ref.l1_origin, self.users(self.payloads[ref.hash]))
            for ref in refs
        ]
        parent = self.known[refs[0].parent_hash].ref
        return span_batch(blocks, self.rollup.genesis.l2_time, parent.l1_origin.number)

    def users(self, payload: ExecutionPayload) -> tuple[bytes, ...]:
        return tuple(raw for raw in payload.transactions if not is_deposit(raw))


class DerivedNode(CoreHarness):
    """`dropped` is what derivation dropped; `answered` counts the calls that were answered."""

    def __init__(
        self, chain: PostedChain, engine: ModelEngine | None = None, *, overlap_check: bool = True, **config: Any
    ) -> None:
        self.dropped: list[Dropped] = []
        self.answered = 0
        self._deriver = Deriver(chain.rollup, chain.l1_chain, span_overlap_check=overlap_check)
        self._safe: Any = None
        super().__init__(chain, engine, verified=True, safedb_path="safe", **config)

    def answer(self, pending: PendingCall, answer: CoreAnswer | Any = ...) -> None:
        self.answered += 1
        super().answer(pending, answer)

    def good_answer(self, pending: PendingCall) -> CoreAnswer:
        call = pending.call
        if not isinstance(call, L2BlocksRequest):
            return super().good_answer(pending)
        canonical = self.engine.canonical()
        contents = [
            L2BlockContent(self.chain.ref(canonical[number]), canonical[number].transactions)
            for number in range(call.first, call.last + 1)
        ]
        return L2BlocksResponse(call.reset, call.first, call.last, tuple(contents), None)

    def _take_from_engine(self, message: PipelineStart | AttributesResult | L2BlocksResponse, in_force: bool) -> None:
        if isinstance(message, PipelineStart):
            if self.start is None or message.reset != self.start.reset:
                self.start, self.sequence, self.waiting = message, 0, None
                self._safe = message.safe_head, message.safe_config
                self._deriver.reset(message.base, message.base_config)
        elif self.start is None or message.reset != self.start.reset:
            return
        elif isinstance(message, L2BlocksResponse):
            self._deriver.add_l2_blocks(message.first, message.last, message.blocks)
        elif self.waiting is not None and message.sequence == self.waiting.sequence:
            self.waiting, self._safe = None, (message.safe_head, message.safe_config)
            if message.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS:
                self._deriver.flush_for_deposits_only()
            assert message.outcome is not AttributesOutcome.REFUSED

    def work(self, calls: int | None = None) -> None:
        """Derive and answer all calls until nothing is left to do, or so many calls are answered."""
        end = None if calls is None else self.answered + calls
        for _ in range(5000):
            self.step()
            if end is not None and self.answered >= end:
                return
            if self.open:
                self.answer(self.open[0])
            elif not self._derive():
                if self.core.heads is not None and self.waiting is None and not self._label_waits():
                    return
                self.wait(0.2)
        raise AssertionError(f"work without end: {self.core.log.lines()[-30:]}")

    def _label_waits(self) -> bool:
        engine = self.engine
        return self.heads.forkchoice() != Forkchoice(engine.head, engine.safe, engine.finalized)

    def _derive(self) -> bool:
        """Step derivation once; whether it goes on by itself."""
        if self.start is None or self.core.status().reset != self.start.reset:
            before = self.start
            self.request(StartRequest(0, None), self.derivation)
            return self.start is not before
        if self.waiting is not None:
            self.request(self.waiting, self.derivation)
            return False
        match self._deriver.step(*self._safe):
            case Dropped() as dropped:
                self.dropped.append(dropped)
            case NeedL1Block(number=number) if number <= self.l1_head:
                self._deriver.add_l1_block(self.chain.l1(number))
            case NeedDecoded(key=key, task=task):
                self._deriver.add_decoded(key, tasks.run(task))
            case NeedL2Blocks(first=first, last=last):
                self.request(L2BlocksRequest(self.start.reset, first, last), self.derivation)
            case AttributesReady() as output:
                self.sequence += 1
                self.waiting = msgspec.structs.replace(output, reset=self.start.reset, sequence=self.sequence)
                self.request(self.waiting, self.derivation)
            case _:
                return False
        return True
