"""The search for a pipeline start, as calls.

The heads (unless they are in force already), the system config of the safe block, the base, and L1 block 0 for the safe
head database. One call at a time; any error ends the search, and the next one starts from nothing.

| part  | calls                                                      | result                         |
|-------|------------------------------------------------------------|--------------------------------|
| heads | labels, ancestors, canonical L1 blocks [STA1 to STA14];    | heads                          |
|       | in a supernode the last verified block's L1 block [RW3],   |                                |
|       | and the blocks of the numbers of denied ones [RW1]         |                                |
| safe  | the block of the safe head                                 | its system config [SYS27]      |
| base  | blocks below it, by number [RS1, ADA14]                    | the base and its system config |
| L1    | block 0, if the safe head is the L2 genesis [SDB8]         | its number and hash            |
"""

import msgspec

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.engine.calls.engine_api import GetBlock, GetBlockRef, Unavailable
from rollup_node.stages.engine.calls.heads import Heads, L2BlockInfo, l2_block_info
from rollup_node.stages.engine.heads.verification import Verification
from rollup_node.stages.engine.starts import start_search
from rollup_node.stages.engine.starts.start_search import Reads, StartCall, expect
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import L1AtSafeHeadRequest, SafeHeadResponse
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef


class FoundStart(msgspec.Struct, frozen=True):
    """`heads` is None where only the base was searched for; `safe_config` is the system config of the safe block.

    `l1_genesis` is L1 block 0 where it is wanted and the safe head is the L2 genesis. `was_safe` is the number of the
    block that the engine calls safe, where its labels were read."""

    heads: Heads | None
    safe: L2BlockRef
    safe_config: SystemConfig
    base: start_search.Base
    l1_genesis: BlockId | None = None
    was_safe: int = 0


class PipelineStartSearch:
    """One search.

    `call` is the call that is due; None once the start is `found`. With `safe`, only the base is searched for; `heads`
    are the heads to start with where they are known [ELS5]. `offset` is how many blocks safe and finalized are set
    behind the tip of a chain that was synced without finality [STA2]. `find_l1_genesis`: L1 block 0 is wanted. By
    `verification` the heads stand on no denied block."""

    def __init__(
        self,
        rollup: RollupConfig,
        *,
        skip_check: bool = False,
        find_l1_genesis: bool = False,
        safe: L2BlockRef | None = None,
        heads: Heads | None = None,
        offset: int = 0,
        verification: Verification | None = None,
    ) -> None:
        self._rollup, self._find_l1_genesis, self._verification = rollup, find_l1_genesis, verification
        self._walk = start_search.StartSearch(rollup, skip_check, offset)
        self.found: FoundStart | None = None
        self._heads_given = heads is not None
        self._read_to = safe
        self._steps = self._search(safe, heads)
        self.call: StartCall | None = next(self._steps)

    def answer(self, answer: object) -> None:
        """Take the answer to `call`. Raises TemporaryError and ResetError, after which the search is over."""
        if isinstance(answer, Unavailable):
            raise TemporaryError(answer.reason, answer.code)
        try:
            self.call = self._steps.send(answer)
        except StopIteration as end:
            self.call, self.found = None, end.value

    def lacks_block(self) -> bool:
        """Take that a block is incomplete; whether the search goes on without it. Raises as `answer`."""
        if not isinstance(self.call, GetBlock | GetBlockRef) or not (self._walk.recovers and self._walk.offset):
            return False
        self.answer(None)
        return True

    def _search(self, safe: L2BlockRef | None, heads: Heads | None) -> Reads[FoundStart]:
        if safe is None and heads is None:
            self._walk.verified = yield from self._find_verified()
            heads = yield from self._walk.run()
            self._read_to = None if self._walk.labels is None else self._walk.labels.safe
        while True:
            if heads is not None and self._verification is not None:
                heads = yield from self._below_denied(heads, self._verification)
            start = heads.safe if safe is None and heads is not None else safe
            assert start is not None
            try:
                return (yield from self._find_start(heads, start))
            except start_search.MissingBlockError:
                nearer = yield from self._walk.shrink()
                if nearer is None:
                    raise
                heads = nearer

    def _find_start(self, heads: Heads | None, safe: L2BlockRef) -> Reads[FoundStart]:
        info = self._block_info((yield GetBlock(safe.hash)))
        if info is None and (self._heads_given or self._walk.recovers):
            raise start_search.MissingBlockError(f"the engine does not have block {safe}, which is to be its safe head")
        if info is None and heads is None:
            raise ResetError(f"the engine has lost the safe block {safe}")
        if info is None:
            raise TemporaryError(f"the engine does not have its safe block {safe}", Code.ENGINE_ANSWER)
        search = start_search.BaseSearch(self._rollup, info, self._look_back(safe))
        while not isinstance(need := search.next(), start_search.Base):
            search.add_block(need, self._block_info((yield GetBlock(need))))
        l1_genesis = None
        if self._find_l1_genesis and safe.id == self._rollup.genesis.l2:
            l1_genesis = expect((yield GetL1BlockRef(0, False)), L1BlockRef)
            if l1_genesis is None:
                raise TemporaryError("L1 has no block 0 yet")
        was_safe = 0 if self._walk.labels is None else self._walk.labels.safe.number
        return FoundStart(heads, safe, info.config, need, None if l1_genesis is None else l1_genesis.id, was_safe)

    def _look_back(self, safe: L2BlockRef) -> int:
        """Return how far below its origin the base lies at least, for inputs that may be challenged [ADA14]."""
        read_to = self._read_to
        if read_to is None or read_to.number < safe.number:
            return 0
        return max(
            0, start_search.challenge_lookback(self._rollup) - (read_to.l1_origin.number - safe.l1_origin.number)
        )

    def _below_denied(self, heads: Heads, verification: Verification) -> Reads[Heads]:
        """Return the heads below what must not stand in the chain [RW1]. Raises StartSearchError if that is final."""
        limit = verification.limit
        if limit is not None and limit.number < heads.unsafe.number:
            heads = _not_above(heads, (yield from self._block_below(heads, limit.number)))
        for denied in verification.denied_of(heads):
            if (yield from self._block_below(heads, denied.number)).hash == denied.hash:
                return _not_above(heads, (yield from self._block_below(heads, denied.number - 1)))
        return heads

    def _block_below(self, heads: Heads, number: int) -> Reads[L2BlockRef]:
        block = expect((yield GetBlockRef(number)), L2BlockRef)
        if block is None:
            text = f"the engine does not have block {number} below its block {heads.unsafe}"
            raise start_search.StartSearchError(text, Code.ENGINE_ANSWER)
        return block

    def _find_verified(self) -> Reads[BlockId | None]:
        """Return the last verified block, if L1 has the block with which it became safe, as it is on record [RW3]."""
        verdict = None if self._verification is None else self._verification.verdict
        if verdict is None or verdict.verified is None or self._rollup.alt_da is not None:
            return None
        record = yield L1AtSafeHeadRequest(0, verdict.verified.number)
        if not isinstance(record, SafeHeadResponse) or record.error is not None:
            return None
        l1_block = expect((yield GetL1BlockRef(record.l1_block.number, True)), L1BlockRef)
        return verdict.verified if l1_block is not None and l1_block.id == record.l1_block else None

    def _block_info(self, answer: object) -> L2BlockInfo | None:
        payload = expect(answer, ExecutionPayload)
        return None if payload is None else l2_block_info(payload, self._rollup)


def _not_above(heads: Heads, block: L2BlockRef) -> Heads:
    """Return the heads, at most a block of the engine's chain. Raises StartSearchError if it has finalized more."""
    if block.number < heads.finalized.number:
        raise start_search.StartSearchError(
            f"the chain cannot go back to block {block}: the engine has finalized block {heads.finalized}",
            Code.ENGINE_ANSWER,
        )
    unsafe, safe = (min(head, block, key=lambda ref: ref.number) for head in (heads.unsafe, heads.safe))
    return Heads(unsafe, safe, safe, heads.finalized)
