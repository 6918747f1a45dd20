"""Where the start search ends, case by case [STA1 to STA17]."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.engine.calls.engine_api import GetBlockRef
from rollup_node.stages.engine.calls.heads import Heads, L2BlockInfo
from rollup_node.stages.engine.starts.start_search import (
    Base,
    BaseSearch,
    Reads,
    StartCall,
    StartSearch,
    StartSearchError,
)
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.support.chains.chain_fixture import (
    GENESIS_L1,
    GENESIS_TIME,
    ChainFixture,
    chain_with,
    l1_header,
    make_rollup,
)

T = TypeVar("T")
L1_TIME = 12
EARLY = ("regolith", "canyon", "delta", "ecotone", "fjord")


class Engine:
    """An engine's labels over a chain of references, which is read by hash; the blocks below `pruned` are gone.

    `early` are the first answers for labels."""

    def __init__(self, refs: list[L2BlockRef], finalized: int | None, safe: int | None, latest: int = -1) -> None:
        self.by_hash = {ref.hash: ref for ref in refs}
        self.refs = refs
        self.labels = {
            "finalized": None if finalized is None else refs[finalized],
            "safe": None if safe is None else refs[safe],
            "latest": refs[latest],
        }
        self.calls: list[StartCall] = []
        self.early: list[L2BlockRef] = []
        self.l1_head, self.pruned = 10_000, 0

    def run(self, chain: ChainFixture, l1_head: int = 10_000, pruned: int = 0, **kind: Any) -> Heads:
        self.l1_head, self.pruned = l1_head, pruned
        return self.finish(StartSearch(chain.rollup, **kind).run(), chain)

    def finish(self, reads: Reads[T], chain: ChainFixture) -> T:
        """Answer the calls of a search to its end."""
        answer: object = None
        try:
            while True:
                call = reads.send(answer)
                self.calls.append(call)
                answer = self.answer(call, chain)
        except StopIteration as end:
            result: T = end.value
            return result

    def answer(self, call: StartCall, chain: ChainFixture) -> object:
        match call:
            case GetL1BlockRef(number=number):
                return chain.l1_ref(number) if number <= self.l1_head else None
            case GetBlockRef(name=int(number)):
                return None if 0 < number < self.pruned else self.refs[number]
            case GetBlockRef(name=str(label)):
                return self.early.pop(0) if self.early else self.labels[label]
            case GetBlockRef(name=bytes(name)):
                return self.by_hash.get(name)
        return ()


def heads(unsafe: L2BlockRef, safe: L2BlockRef, finalized: L2BlockRef) -> Heads:
    return Heads(unsafe, safe, safe, finalized)


@pytest.mark.fault("F46")
@pytest.mark.parametrize(
    ("latest", "labels", "reorg", "shown", "expected"),
    [
        pytest.param(0, (None, None), None, None, (0, 0, 0), id="a fresh engine"),
        pytest.param(30, (3, 20), 27, None, (23, 3, 3), id="unsafe blocks on a branch of L1 are discarded"),
        pytest.param(30, (3, 20), None, 24, (30, 3, 3), id="origins that L1 does not show yet keep the tip"),
        pytest.param(30, (3, 20), 12, 24, (11, 3, 3), id="a reorg below an invisible tip discards it all"),
        pytest.param(10, (3, 20), None, None, (10, 10, 10), id="a tip below the labels is the start"),
    ],
)
def test_where_a_search_ends(
    chain: ChainFixture,
    latest: int,
    labels: tuple[int | None, int | None],
    reorg: int | None,
    shown: int | None,
    expected: tuple[int, int, int],
) -> None:
    """L1 is reorganized at the origin of a block, and shows the blocks up to the origin of another."""
    refs = chain.build(30)
    if reorg is not None:
        chain.reorg("b", refs[reorg].l1_origin.number)
    l1_head = 10_000 if shown is None else refs[shown].l1_origin.number
    engine = Engine(refs, *labels, latest=latest)
    assert engine.run(chain, l1_head) == heads(*(refs[number] for number in expected))
    assert (GetBlockRef(0) in engine.calls) is (labels == (None, None))


def test_a_reorg_that_is_too_deep() -> None:
    chain = chain_with(seq_window_size=2)
    refs = chain.build(100)
    chain.reorg("b", refs[30].l1_origin.number)
    with pytest.raises(StartSearchError, match="reorg is too deep"):
        Engine(refs, 1, 90).run(chain)


def test_an_l1_that_is_another_chain(chain: ChainFixture) -> None:
    refs = chain.build(10)
    with pytest.raises(StartSearchError, match="L1 genesis block is missing"):
        Engine(refs, 0, 0).run(chain, l1_head=99)
    chain.reorg("b", 0)
    with pytest.raises(StartSearchError, match="wrong chain: the L1 genesis block"):
        Engine(refs, 0, 5).run(chain)
    with pytest.raises(StartSearchError, match="not on the L1 chain"):
        Engine(refs, 2, 5).run(chain)


OTHER = b"\x09" * 32


@pytest.mark.fault("F44")
def test_an_engine_of_another_chain(chain: ChainFixture) -> None:
    with pytest.raises(StartSearchError, match="wrong chain: the engine's genesis"):
        Engine([msgspec.structs.replace(chain.genesis, hash=OTHER)], 0, 0).run(chain)


@pytest.mark.parametrize(
    ("label", "number", "changes", "text"),
    [
        ("finalized", 4, {"hash": OTHER}, "cannot reorg finalized block"),
        ("", 7, None, "does not have block"),
        ("", 7, {"sequence_number": 5}, "not consecutive"),
        ("latest", 12, {"sequence_number": 5}, "new L1 origin but sequence number"),
        ("", 5, {"l1_origin": l1_header(105).ref.id}, "does not follow"),
        ("", 5, {"l1_origin": BlockId(100, OTHER)}, "which is not the parent of"),
    ],
)
def test_a_broken_chain(
    chain: ChainFixture, label: str, number: int, changes: dict[str, Any] | None, text: str
) -> None:
    """A block is missing, or another one by hash or label."""
    refs = chain.build(12)
    engine = Engine(refs, 0, 12)
    if changes is None:
        del engine.by_hash[refs[number].hash]
    else:
        bad = msgspec.structs.replace(refs[number], **changes)
        engine.by_hash[bad.hash] = bad
        if label:
            engine.labels[label] = bad
    with pytest.raises(StartSearchError, match=text):
        engine.run(chain)


def test_only_heads_behind_the_tip_are_set_nearer_to_it() -> None:
    chain = chain_with(seq_window_size=2)
    far = chain.build(200)
    search, engine = StartSearch(chain.rollup, offset=3), Engine(far, None, None)
    assert engine.finish(search.shrink(), chain) is None, "not yet"
    engine.finish(search.run(), chain)
    assert engine.finish(search.shrink(), chain) == heads(far[200], far[199], far[199])
    assert engine.finish(search.shrink(), chain) == heads(far[200], far[200], far[200])
    assert engine.finish(search.shrink(), chain) is None
    search, engine = StartSearch(chain.rollup, offset=3), Engine(far, 150, 180)
    engine.finish(search.run(), chain)
    assert engine.finish(search.shrink(), chain) is None


@pytest.mark.option("l2.skip-sync-start-check", by="skip_check")
def test_skipping_the_check_jumps_to_the_safe_head(chain: ChainFixture) -> None:
    refs = chain.build(60)
    engine = Engine(refs, 10, 20)
    result = engine.run(chain, skip_check=True)
    assert result == heads(refs[60], refs[10], refs[10])
    walked = [call for call in engine.calls if isinstance(call, GetBlockRef) and isinstance(call.name, bytes)]
    assert len(walked) == 10


def chain_of_epochs(lengths: Iterable[int]) -> list[L2BlockInfo]:
    """Return an L2 chain whose epochs have these numbers of blocks; the first is that of genesis."""
    result: list[L2BlockInfo] = []
    for epoch, length in enumerate(lengths):
        origin = BlockId(GENESIS_L1 + epoch, bytes(28) + epoch.to_bytes(4, "big"))
        for sequence_number in range(length):
            number = len(result)
            ref = L2BlockRef(number.to_bytes(32, "big"), number, bytes(32), 2 * number, origin, sequence_number)
            result.append(
                L2BlockInfo(ref, GENESIS_TIME + L1_TIME * epoch, SystemConfig(bytes(20), ref.hash, ref.hash, 0))
            )
    return result


def plain_walk(rollup: RollupConfig, chain: Sequence[L2BlockInfo], safe: int, look_back: int = 0) -> Base:
    """RS1 word by word, and with a look-back ADA14."""
    genesis, schedule, at = rollup.genesis, rollup.schedule(), chain[safe]
    while (
        at.ref.number > genesis.l2.number
        and at.ref.l1_origin.number > genesis.l1.number
        and at.ref.l1_origin.number + max(schedule.l1(at.origin_time).channel_timeout, look_back)
        > chain[safe].ref.l1_origin.number
    ):
        at = chain[at.ref.number - 1]
    return Base(at.ref.l1_origin, at.config)


def search(rollup: RollupConfig, chain: Sequence[L2BlockInfo], safe: int, look_back: int = 0) -> tuple[Base, int]:
    machine, reads = BaseSearch(rollup, chain[safe], look_back), 0
    while isinstance(need := machine.next(), int):
        reads += 1
        machine.add_block(need, chain[need])
    return need, reads


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=120),
    cases=st.lists(
        st.tuples(st.integers(1, 150), st.integers(0, 150), st.just(0) | st.integers(0, 150), st.floats(0, 0.9999)),
        min_size=4,
        max_size=4,
    ),
)
def test_the_base_is_that_of_the_rule(lengths: list[int], cases: list[tuple[int, int, int, float]]) -> None:
    """Whatever the lengths of the epochs; the time of the walked-to origin decides which timeout counts [RS2].

    Each case is a timeout, the epoch of Granite, the look-back, and where the safe head is."""
    chain = chain_of_epochs(lengths)
    for timeout, granite, look_back, at in cases:
        times = {**dict.fromkeys(EARLY, 0), "granite": GENESIS_TIME + L1_TIME * granite}
        rollup = make_rollup(times, channel_timeout=timeout)
        safe = int(at * len(chain))
        assert search(rollup, chain, safe, look_back)[0] == plain_walk(rollup, chain, safe, look_back)


@pytest.mark.parametrize(("timeout", "granite"), [(300, 10_000), (300, 0), (300, 1_960), (20, 1_960)])
def test_few_blocks_are_read(timeout: int, granite: int) -> None:
    """About ten on a chain of uneven epochs; only a timeout that grew at Granite takes one read for each epoch."""
    chain = chain_of_epochs(6 + (epoch * epoch) % 5 - 2 for epoch in range(2_000))
    times = {**dict.fromkeys(EARLY, 0), "granite": GENESIS_TIME + L1_TIME * granite}
    rollup = make_rollup(times, channel_timeout=timeout)
    result, reads = search(rollup, chain, len(chain) - 1)
    assert result == plain_walk(rollup, chain, len(chain) - 1)
    assert reads <= (50 if timeout == 20 else 12)


def test_a_missing_or_foreign_block_resets(chain: ChainFixture) -> None:
    refs = chain.build(40)
    machine = BaseSearch(chain.rollup, chain.known[refs[40].hash])
    need = machine.next()
    assert isinstance(need, int)
    machine.add_block(need + 1, None)
    assert machine.next() == need, "an answer to another question is ignored"
    with pytest.raises(ResetError, match="has no block"):
        machine.add_block(need, None)
    with pytest.raises(ResetError, match="does not fit"):
        machine.add_block(need, chain.known[refs[39].hash])
