"""An EL sync with a model engine, in virtual time."""

from typing import Any

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.engine.calls.safe_head_entries import FindSafeHeads, KeepSafeHeads
from rollup_node.stages.engine.heads.verification import Verification
from rollup_node.stages.engine.starts.el_sync import RESEND_SECONDS, ELSync, ELSyncState
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, L1BlockRef
from tests.support.chains.chain_fixture import GENESIS_TIME, chain_with
from tests.support.engine.core_harness import config_of
from tests.support.engine.model_engine import ModelEngine
from tests.support.engine.safe_heads import SafeHeadModel

LENGTH = 12


class Bench:
    """An EL sync, an engine that has block 0 of twelve, and the time; `calls` are those made so far.

    L1 has the recorded blocks below the number `replaced_from`, and others from there to `l1_head`."""

    def __init__(
        self,
        kind: str = "geth",
        offset: float = 8.0,
        sequencer: bool = False,
        record: SafeHeadModel | None = None,
        is_given: bool = True,
    ) -> None:
        self.chain = chain_with()
        self.refs = self.chain.build(LENGTH)
        self.engine = ModelEngine(self.chain)
        self.engine.lost = {ref.hash for ref in self.refs[1:]}
        self.record = record
        options: dict[str, Any] = {"sequencer_enabled": sequencer, "engine_kind_given": is_given}
        options |= {"engine_kind": kind, "el_sync": True, "offset_el_safe": offset}
        self.verification = Verification(self.chain.rollup.l2_chain_id, enabled=True)
        self.sync = ELSync(config_of(self.chain, **options), record is not None, self.verification)
        self.monotonic, self.unix = 100.0, float(GENESIS_TIME + 100_000)
        self.calls: list[Any] = []
        self.replaced_from = self.l1_head = 1000

    def payload(self, number: int) -> ExecutionPayload:
        return self.chain.payloads[self.refs[number].hash]

    def has(self, number: int, finalized: int | None = None, safe: int | None = None) -> None:
        """The engine has the blocks up to a number."""
        self.engine.lost = {ref.hash for ref in self.refs[number + 1 :]}
        self.engine.head = self.refs[number].hash
        if finalized is not None:
            self.engine.finalized = self.refs[finalized].hash
            self.engine.safe = self.refs[finalized if safe is None else safe].hash

    def next(self) -> Any:
        return self.sync.next(self.monotonic, self.unix)

    def answer(self, answer: Any = ...) -> Any:
        """Answers the call that is due, by default as the engine does; the call."""
        call = self.next()
        assert call is not None
        self.calls.append(call)
        self.sync.answer(call, self._answer(call) if answer is ... else answer, self.monotonic)
        return call

    def _answer(self, call: Any) -> Any:
        if self.record is not None and isinstance(call, FindSafeHeads):
            return self.record.find(call)
        if self.record is not None and isinstance(call, GetL1BlockRef):
            return self._l1_block(self.record, call.number)
        if self.record is not None and isinstance(call, KeepSafeHeads):
            self.record.write(call)
            return True
        return self.engine.answer(call)

    def _l1_block(self, record: SafeHeadModel, number: int) -> L1BlockRef | None:
        """Return L1's block of a number: the recorded one, unless that was replaced."""
        if number > self.l1_head:
            return None
        entry = record.at_l1(number)
        is_kept = number < self.replaced_from
        block_hash = entry.l1_block.hash if is_kept and entry is not None else b"\x77" * 32
        return L1BlockRef(block_hash, number, ZERO_HASH, 0)

    def run(self) -> None:
        """Answers calls until none is due now."""
        for _ in range(50):
            if self.next() is None:
                return
            self.answer()
        raise AssertionError("calls without end")

    def fetch(self) -> None:
        """The engine fetches the chain, and the target is sent again."""
        self.engine.fetch()
        self.monotonic += RESEND_SECONDS
        self.run()

    def state(self) -> ELSyncState:
        return self.sync.state

    def heads(self) -> tuple[int, int, int]:
        heads = self.sync.heads
        assert heads is not None and heads.pending_safe == heads.safe
        return heads.unsafe.number, heads.safe.number, heads.finalized.number


def syncing(**options: Any) -> Bench:
    """Return a sync to block 10 of which the engine has only genesis."""
    bench = Bench(**options)
    bench.sync.offer(bench.payload(10))
    bench.run()
    assert bench.state() is ELSyncState.STARTED
    return bench
