"""The search for a pipeline start as calls: reading ahead over chains that move or have holes, the safe block, the
base, and what ends a search."""

from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.engine.calls.engine_api import GetBlock, GetBlockRef, GetBlockRefs, Unavailable
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.starts.pipeline_start import FoundStart, PipelineStartSearch
from rollup_node.stages.engine.starts.start_search import PREFETCH, StartCall
from rollup_node.stages.messages.control import L1AtSafeHeadRequest
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import GENESIS_L1, ChainFixture, chain_with
from tests.support.engine.model_engine import ModelEngine


class Searcher:
    """Answers the calls of a search; `calls` are all of them.

    `holes` are numbers of canonical blocks that cannot be read by number."""

    def __init__(self, chain: ChainFixture, tip: L2BlockRef) -> None:
        self.chain, self.engine = chain, ModelEngine(chain)
        self.engine.head, self.engine.safe = tip.hash, chain.genesis.hash
        self.holes: set[int] = set()
        self.calls: list[StartCall] = []

    def answer(self, call: StartCall) -> object:
        self.calls.append(call)
        if isinstance(call, GetL1BlockRef):
            return self.chain.l1_ref(call.number)
        assert not isinstance(call, L1AtSafeHeadRequest), "nothing is verified"
        result = self.engine.answer(call)
        if isinstance(call, GetBlockRefs) and isinstance(result, tuple):
            return tuple(ref for ref in result if ref.number not in self.holes)
        return result

    def run(self, **options: Any) -> FoundStart:
        search = PipelineStartSearch(self.chain.rollup, **options)
        self.until(search, lambda call: False)
        assert search.found is not None
        return search.found

    def until(self, search: PipelineStartSearch, condition: Callable[[StartCall], bool]) -> None:
        """Answer the calls of a search up to one of some kind."""
        while search.call is not None and not condition(search.call):
            search.answer(self.answer(search.call))

    def ranges(self) -> list[tuple[int, int]]:
        """Return what was read by number, many at once."""
        return [(call.first, call.last) for call in self.calls if isinstance(call, GetBlockRefs)]


def test_l1_block_0_is_found_for_the_l2_genesis(chain: ChainFixture) -> None:
    """[SDB8]"""
    refs = chain.build(3)
    searcher = Searcher(chain, refs[3])
    assert searcher.run().l1_genesis is None, "not wanted"
    assert searcher.run(find_l1_genesis=True).l1_genesis == chain.l1_ref(0).id
    assert searcher.run(find_l1_genesis=True, safe=refs[2]).l1_genesis is None, "the safe head is another block"
    search = PipelineStartSearch(chain.rollup, find_l1_genesis=True)
    searcher.until(search, lambda call: call == GetL1BlockRef(0, fresh=False))
    with pytest.raises(TemporaryError, match="no block 0"):
        search.answer(None)


def test_a_walk_reads_many_blocks_at_once(chain: ChainFixture) -> None:
    refs = chain.build(50)
    searcher = Searcher(chain, refs[50])
    searcher.run()
    assert searcher.ranges() == [(50 - PREFETCH, 49), (50 - 2 * PREFETCH, 49 - PREFETCH), (0, 49 - 2 * PREFETCH)]


def test_only_the_first_l1_block_is_read_afresh(chain: ChainFixture) -> None:
    searcher = Searcher(chain, chain.build(20)[20])
    searcher.run()
    l1 = [call for call in searcher.calls if isinstance(call, GetL1BlockRef)]
    assert len(l1) > 2 and [call.fresh for call in l1] == [True, *[False] * (len(l1) - 1)]


class PrunedEngine(Searcher):
    """Of a chain whose blocks up to number `pruned` the engine lacks, genesis excepted: it has none of them, or has
    them `bodiless`."""

    def __init__(self, chain: ChainFixture, refs: list[L2BlockRef], pruned: int, bodiless: bool) -> None:
        super().__init__(chain, refs[-1])
        self.gone = {name for ref in refs[1 : pruned + 1] for name in (ref.number, ref.hash)}
        self.holes, self.bodiless = set(range(1, pruned + 1)), bodiless

    def run(self, **options: Any) -> FoundStart:
        search = PipelineStartSearch(self.chain.rollup, offset=96)
        while (call := search.call) is not None:
            gone = isinstance(call, GetBlock | GetBlockRef) and call.name in self.gone
            if not gone or not self.bodiless:
                search.answer(None if gone else self.answer(call))
            elif not search.lacks_block():
                raise TemporaryError("no transactions")
        assert search.found is not None
        return search.found


@pytest.mark.parametrize("bodiless", [False, True])
@pytest.mark.parametrize(("pruned", "safe"), [(0, 104), (60, 152), (104, 176), (149, 200)])
def test_a_chain_synced_without_finality_starts_where_the_engine_has_blocks(
    bodiless: bool, pruned: int, safe: int
) -> None:
    """[STA2] The base lies a channel timeout of 50 blocks below the safe head, and the engine needs both."""
    chain = chain_with(l1_step=2, seq_window_size=2)
    refs = chain.build(200, per_epoch=1)
    result = PrunedEngine(chain, refs, pruned, bodiless).run()
    assert result.heads == Heads(refs[200], refs[safe], refs[safe], refs[safe])
    assert result.safe == refs[safe] and result.base.base == refs[safe - 50].l1_origin


def with_alt_da() -> ChainFixture:
    """Return a chain whose challenges take 80 L1 blocks, longer than its look-back."""
    return chain_with(l1_step=2, alt_da=AltDaConfig(b"\xda" * 20, "KeccakCommitment", 50, 30))


@pytest.mark.parametrize(("safe", "start", "base"), [(190, 118, 68), (110, 109, 30), (150, 118, 68)])
def test_a_search_for_heads_looks_back_from_the_safe_head_of_before(safe: int, start: int, base: int) -> None:
    """In a node in sync the new safe head lies a look-back behind; behind it, an epoch [STA11]."""
    chain = with_alt_da()
    refs = chain.build(200, per_epoch=1)
    searcher = Searcher(chain, refs[200])
    searcher.engine.safe = refs[safe].hash
    result = searcher.run()
    assert (result.safe, result.base.base.number - GENESIS_L1) == (refs[start], base)


def test_a_safe_block_that_is_missing(chain: ChainFixture) -> None:
    """A search for heads is repeated; heads that are in force need a new start."""
    refs = chain.build(3)
    search = PipelineStartSearch(chain.rollup, safe=refs[2])
    assert search.call == GetBlock(refs[2].hash)
    with pytest.raises(ResetError, match="has lost the safe block"):
        search.answer(None)
    search = PipelineStartSearch(chain.rollup)
    Searcher(chain, refs[3]).until(search, lambda call: isinstance(call, GetBlock))
    with pytest.raises(TemporaryError, match="does not have its safe block"):
        search.answer(None)


@pytest.mark.parametrize("answer", [Unavailable("away"), 5], ids=["unavailable", "of another kind"])
def test_answers_that_end_a_search(answer: object, chain: ChainFixture) -> None:
    search = PipelineStartSearch(chain.rollup)
    with pytest.raises(TemporaryError):
        search.answer(answer)
