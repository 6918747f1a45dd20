"""Reading ahead for a walk down, over chains that move or have holes."""

import asyncio
from typing import Any

from rollup_node.stages.engine.api.io.ancestors import AHEAD, Ancestors
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chain_fixture import ChainFixture


class Chain:
    """Blocks by hash; `canonical` are those known by number."""

    def __init__(self, refs: list[L2BlockRef]) -> None:
        self.by_hash = {ref.hash: ref for ref in refs}
        self.canonical = {ref.number: ref for ref in refs}
        self.calls: list[Any] = []

    async def ref(self, name: bytes) -> L2BlockRef | None:
        self.calls.append(name)
        return self.by_hash.get(name)

    async def refs(self, first: int, last: int) -> list[L2BlockRef]:
        self.calls.append((first, last))
        return [self.canonical[number] for number in range(first, last + 1) if number in self.canonical]


def walk(chain: Chain, tip: L2BlockRef) -> list[int]:
    async def down() -> list[int]:
        ancestors, at, numbers = Ancestors(chain), tip, []
        while (parent := await ancestors.parent(at)) is not None:
            assert parent.hash == at.parent_hash
            numbers.append(parent.number)
            at = parent
        return numbers

    return asyncio.run(down())


def test_a_walk_reads_many_blocks_at_once(chain: ChainFixture) -> None:
    refs = chain.build(50)
    chain = Chain(refs)
    assert walk(chain, refs[50]) == list(range(49, -1, -1))
    reads = [call for call in chain.calls if isinstance(call, tuple)]
    assert reads[:3] == [(50 - AHEAD, 49), (50 - 2 * AHEAD, 49 - AHEAD), (0, 49 - 2 * AHEAD)]


def test_a_branch_that_is_not_canonical_is_walked_by_hash(chain: ChainFixture) -> None:
    refs = chain.build(10)
    side = chain.ref(chain.seal(refs[8], chain.attributes(refs[8], 101, [chain.user])))
    tip = chain.ref(chain.seal(side, chain.attributes(side, 101)))
    chain = Chain([*refs, side, tip])
    chain.canonical = {ref.number: ref for ref in refs}
    assert walk(chain, tip) == list(range(9, -1, -1))
    assert side.hash in chain.calls and refs[8].hash not in chain.calls


def test_a_hole_ends_the_walk(chain: ChainFixture) -> None:
    refs = chain.build(10)
    chain = Chain([ref for ref in refs if ref.number != 4])
    assert walk(chain, refs[10]) == [9, 8, 7, 6, 5]
