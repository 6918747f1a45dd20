"""Where the start search ends, case by case [STA1 to STA17]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.machines.start_search import (
    NeedGenesis,
    NeedLabel,
    NeedOffset,
    NeedOrigin,
    NeedParent,
    StartSearch,
    StartSearchError,
    sync_lookback,
)
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, chain_with


class Engine:
    """An engine's labels over a chain of references."""

    def __init__(self, refs: list[L2BlockRef], finalized: int | None, safe: int | None, latest: int = -1) -> None:
        self.by_hash = {ref.hash: ref for ref in refs}
        self.refs = refs
        self.labels = {
            "finalized": None if finalized is None else refs[finalized],
            "safe": None if safe is None else refs[safe],
            "latest": refs[latest],
        }
        self.needs: list[Any] = []

    def run(self, chain: ChainFixture, l1_head: int = 10_000, pruned: int = 0, **kind: Any) -> Heads:
        return self.continued(StartSearch(chain.rollup, **kind), chain, l1_head, pruned)

    def continued(self, search: StartSearch, chain: ChainFixture, l1_head: int = 10_000, pruned: int = 0) -> Heads:
        """Where a search ends that has taken answers already; the engine lacks the first `pruned` blocks."""
        while not isinstance(need := search.next(), Heads):
            self.needs.append(need)
            if isinstance(need, NeedOrigin):
                search.add_origin(need, chain.l1_ref(need.number) if need.number <= l1_head else None)
            elif isinstance(need, NeedLabel):
                search.add_block(need, self.labels[need.label])
            elif isinstance(need, NeedGenesis):
                search.add_block(need, self.refs[0])
            elif isinstance(need, NeedOffset):
                search.add_block(need, None if need.number < pruned else self.refs[need.number])
            else:
                search.add_block(need, self.by_hash.get(need.child.parent_hash))
        return need


def heads(unsafe: L2BlockRef, safe: L2BlockRef, finalized: L2BlockRef) -> Heads:
    return Heads(unsafe, safe, safe, finalized)


def test_a_fresh_engine_starts_at_genesis(chain: ChainFixture) -> None:
    engine = Engine([chain.genesis], None, None)
    assert engine.run(chain) == heads(chain.genesis, chain.genesis, chain.genesis)
    assert NeedGenesis(0) in engine.needs


def test_without_a_reorg_the_walk_ends_at_the_finalized_block(chain: ChainFixture) -> None:
    refs = chain.build(30)
    engine = Engine(refs, 5, 20)
    assert engine.run(chain) == heads(refs[30], refs[5], refs[5])
    origins = [need.number for need in engine.needs if isinstance(need, NeedOrigin)]
    assert len(origins) == len(set(origins)), "each L1 block is requested once"


def test_a_full_window_below_the_tip_is_safe(chain: ChainFixture) -> None:
    refs = chain.build(300)
    found = Engine(refs, 0, 250).run(chain)
    canonical = refs[300].l1_origin.number
    assert found.unsafe == refs[300] and found.finalized == refs[0]
    child = refs[found.safe.number + 1]
    assert child.sequence_number == 0
    assert child.l1_origin.number + chain.rollup.seq_window_size < canonical
    assert refs[child.number + 6].l1_origin.number + chain.rollup.seq_window_size >= canonical


def test_the_window_counts_only_below_the_safe_label(chain: ChainFixture) -> None:
    refs = chain.build(300)
    assert Engine(refs, 0, 60).run(chain).safe.number < 60


def test_an_l1_reorg_discards_the_unsafe_blocks_on_it(chain: ChainFixture) -> None:
    refs = chain.build(30)
    chain.reorg("b", refs[27].l1_origin.number)
    found = Engine(refs, 3, 20).run(chain)
    assert found.unsafe == refs[23], "the last block whose origin is still canonical"
    assert found.safe == refs[3]


def test_origins_that_l1_does_not_show_yet_keep_the_tip(chain: ChainFixture) -> None:
    refs = chain.build(30)
    found = Engine(refs, 3, 20).run(chain, l1_head=refs[24].l1_origin.number)
    assert found.unsafe == refs[30]


def test_a_reorg_below_an_invisible_tip_discards_it_all(chain: ChainFixture) -> None:
    refs = chain.build(30)
    chain.reorg("b", refs[12].l1_origin.number)
    found = Engine(refs, 3, 20).run(chain, l1_head=refs[24].l1_origin.number)
    assert found.unsafe == refs[11]


def test_a_reorg_that_is_too_deep() -> None:
    chain = chain_with(seq_window_size=2)
    refs = chain.build(100)
    chain.reorg("b", refs[30].l1_origin.number)
    with pytest.raises(StartSearchError, match="reorg is too deep"):
        Engine(refs, 1, 90).run(chain)


def test_an_l1_that_is_another_chain(chain: ChainFixture) -> None:
    refs = chain.build(10)
    chain.reorg("b", 0)
    with pytest.raises(StartSearchError, match="wrong chain: the L1 genesis block"):
        Engine(refs, 0, 5).run(chain)
    with pytest.raises(StartSearchError, match="not on the L1 chain"):
        Engine(refs, 2, 5).run(chain)


def test_an_l1_without_its_genesis_block(chain: ChainFixture) -> None:
    with pytest.raises(StartSearchError, match="L1 genesis block is missing"):
        Engine(chain.build(3), 0, 0).run(chain, l1_head=99)


@pytest.mark.fault("F44")
def test_an_engine_of_another_chain(chain: ChainFixture) -> None:
    other = msgspec.structs.replace(chain.genesis, hash=b"\x09" * 32)
    with pytest.raises(StartSearchError, match="wrong chain: the engine's genesis"):
        Engine([other], 0, 0).run(chain)


def test_a_finalized_block_is_never_left(chain: ChainFixture) -> None:
    refs = chain.build(10)
    engine = Engine(refs, 4, 6)
    engine.labels["finalized"] = msgspec.structs.replace(refs[4], hash=b"\x09" * 32)
    with pytest.raises(StartSearchError, match="cannot reorg finalized block"):
        engine.run(chain)


def test_recovery_where_nothing_was_ever_final() -> None:
    chain = chain_with(seq_window_size=2)
    far, near = chain.build(200), chain.build(160)
    assert Engine(far, None, None).run(chain) == heads(far[200], far[200], far[200])
    assert Engine(near, None, None).run(chain).finalized == chain.genesis


def test_safe_and_finalized_of_the_recovery_are_behind_the_tip() -> None:
    chain = chain_with(seq_window_size=2)
    far = chain.build(200)
    assert Engine(far, None, None).run(chain, offset=30) == heads(far[200], far[170], far[170])
    assert Engine(far, None, None).run(chain, offset=300) == heads(far[200], far[0], far[0])


@pytest.mark.parametrize(("pruned", "safe"), [(170, 170), (171, 185), (190, 193), (200, 200), (201, 200)])
def test_safe_and_finalized_of_the_recovery_are_where_the_engine_has_blocks(pruned: int, safe: int) -> None:
    """[STA2] The offset is halved, at last to nothing."""
    chain = chain_with(seq_window_size=2)
    far = chain.build(200)
    engine = Engine(far, None, None)
    assert engine.run(chain, offset=30, pruned=pruned) == heads(far[200], far[safe], far[safe])
    offsets = [200 - need.number for need in engine.needs if isinstance(need, NeedOffset)]
    assert offsets == [30, 15, 7, 3, 1][: len(offsets)]


def test_only_heads_behind_the_tip_are_set_nearer_to_it() -> None:
    chain = chain_with(seq_window_size=2)
    far = chain.build(200)
    search = StartSearch(chain.rollup, offset=3)
    assert not search.shrink(), "not yet"
    Engine(far, None, None).continued(search, chain)
    assert [search.shrink() for _ in range(3)] == [True, True, False]
    assert search.next() == heads(far[200], far[200], far[200])
    walked = StartSearch(chain.rollup, offset=3)
    Engine(far, 150, 180).continued(walked, chain)
    assert not walked.shrink()


@pytest.mark.fault("F46")
def test_a_tip_below_the_labels_is_the_start(chain: ChainFixture) -> None:
    refs = chain.build(30)
    assert Engine(refs, 3, 20, latest=10).run(chain) == heads(refs[10], refs[10], refs[10])


def test_labels_of_before_a_restart_of_the_engine_are_read_again(chain: ChainFixture) -> None:
    """It lost blocks after the answer for `safe`: the tip is not taken as final."""
    refs = chain.build(30)
    search = StartSearch(chain.rollup)
    engine = Engine(refs[:11], 5, 8)
    search.add_block(NeedLabel("finalized"), refs[5])
    search.add_block(NeedLabel("safe"), refs[20])
    search.add_block(NeedLabel("latest"), refs[10])
    assert engine.continued(search, chain) == heads(refs[10], refs[5], refs[5])


def test_a_missing_parent(chain: ChainFixture) -> None:
    refs = chain.build(10)
    engine = Engine(refs, 0, 5)
    del engine.by_hash[refs[7].hash]
    with pytest.raises(StartSearchError, match="does not have block"):
        engine.run(chain)


def test_a_broken_chain(chain: ChainFixture) -> None:
    refs = chain.build(12)
    for number, changes, text in (
        (7, {"sequence_number": 5}, "not consecutive"),
        (12, {"sequence_number": 5}, "new L1 origin but sequence number"),
        (5, {"l1_origin": chain.l1_ref(105).id}, "does not follow"),
    ):
        engine = Engine(refs, 0, 12)
        bad = msgspec.structs.replace(refs[number], **changes)
        engine.by_hash[bad.hash] = bad
        if number == 12:
            engine.labels["latest"] = bad
        with pytest.raises(StartSearchError, match=text):
            engine.run(chain)


def test_a_parent_on_another_l1_branch(chain: ChainFixture) -> None:
    refs = chain.build(12)
    engine = Engine(refs, 0, 0)
    bad = msgspec.structs.replace(refs[5], l1_origin=BlockId(100, b"\x09" * 32))
    engine.by_hash[bad.hash] = bad
    with pytest.raises(StartSearchError, match="which is not the parent of"):
        engine.run(chain)


@pytest.mark.option("l2.skip-sync-start-check", by="skip_check")
def test_skipping_the_check_jumps_to_the_safe_head(chain: ChainFixture) -> None:
    refs = chain.build(60)
    engine = Engine(refs, 10, 20)
    found = engine.run(chain, skip_check=True)
    assert found == heads(refs[60], refs[10], refs[10])
    walked = [need for need in engine.needs if isinstance(need, NeedParent)]
    assert len(walked) == 10


def test_answers_to_other_questions_are_ignored(chain: ChainFixture) -> None:
    search = StartSearch(chain.rollup)
    search.add_block(NeedLabel("latest"), chain.genesis)
    search.add_origin(NeedOrigin(100), None)
    assert search.next() == NeedLabel("finalized")


def test_alternative_da_may_look_back_farther(chain: ChainFixture) -> None:
    assert sync_lookback(chain.rollup) == 20
    alt_da = AltDaConfig(None, "GenericCommitment", 30, 40)
    assert sync_lookback(msgspec.structs.replace(chain.rollup, alt_da=alt_da)) == 70
