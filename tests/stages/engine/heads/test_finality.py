"""Finality of L2 blocks by the L1 blocks they came from [FIN1 to FIN8]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.engine.heads.finality import Finality
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.errors import ResetError
from tests.support.chains.chain_fixture import ChainFixture


def filled(chain: ChainFixture, **kind: Any) -> tuple[Finality, list[Any]]:
    """Block 2n became safe with L1 block 100 + n."""
    refs = chain.build(20)
    finality = Finality(kind.pop("rollup", chain.rollup), **kind)
    for number in range(1, 21):
        finality.note_safe(refs[number], chain.l1_ref(100 + (number + 1) // 2))
    return finality, refs


def run(finality: Finality, chain: ChainFixture, finalized: Any) -> Any:
    for _ in range(3):
        need = finality.next(finalized)
        if not isinstance(need, GetL1BlockRef):
            return need
        finality.add_canonical(need.number, chain.l1_ref(need.number))
    return None


@pytest.mark.parametrize(
    ("finalized", "asked", "fork_at", "text"),
    [(108, 108, 108, "finalized L1"), (108, 108, 105, "finalized L1"), (200, 110, 110, "derived from")],
)
def test_both_l1_blocks_must_be_canonical(
    chain: ChainFixture, finalized: int, asked: int, fork_at: int, text: str
) -> None:
    finality, refs = filled(chain)
    finality.note_finalized_l1(chain.l1_ref(finalized))
    if asked != finalized:
        finality.add_canonical(finalized, chain.l1_ref(finalized))
    need = finality.next(refs[0])
    assert need == GetL1BlockRef(asked, fresh=asked == finalized)
    chain.reorg("b", fork_at)
    with pytest.raises(ResetError, match=text):
        finality.add_canonical(asked, chain.l1_ref(asked))


def test_a_finalized_block_that_is_not_canonical_causes_one_reset(chain: ChainFixture) -> None:
    finality, refs = filled(chain)
    foreign = msgspec.structs.replace(chain.l1_ref(104), hash=b"\x66" * 32)
    finality.note_finalized_l1(foreign)
    with pytest.raises(ResetError, match="finalized L1 block"):
        finality.add_canonical(104, chain.l1_ref(104))
    finality.note_idle(chain.l1_ref(110))
    assert finality.next(refs[0]) is None
    assert finality.note_finalized_l1(chain.l1_ref(103)), "a lower one may follow"
    assert run(finality, chain, refs[0]) == refs[6]


@pytest.mark.option("finality.delay", by="delay")
def test_tries_again_when_idle_but_not_too_often(chain: ChainFixture) -> None:
    refs = chain.build(4)
    finality = Finality(chain.rollup, delay=10)
    finality.note_finalized_l1(chain.l1_ref(120))
    assert finality.next(refs[0]) is None
    finality.note_safe(refs[2], chain.l1_ref(101))
    finality.done()
    finality.note_idle(chain.l1_ref(110))
    assert finality.next(refs[0]) is not None
    finality.done()
    finality.note_idle(chain.l1_ref(119))
    assert finality.next(refs[0]) is None
    finality.note_idle(chain.l1_ref(120))
    assert finality.next(refs[0]) is not None


@pytest.mark.option("finality.lookback", by="lookback")
def test_memory_is_bounded_and_cleared_by_a_reset(chain: ChainFixture) -> None:
    finality, refs = filled(chain, lookback=3)
    before = list(finality.safe)
    assert len(before) == 3
    finality.note_safe(refs[1], chain.l1_ref(103))
    assert finality.safe == before, "a block below the last is ignored"
    finality.note_finalized_l1(chain.l1_ref(104))
    assert finality.next(refs[0]) is None, "it was forgotten"
    finality.reset()
    assert finality.safe == [] and finality.finalized_l1 == chain.l1_ref(104)


def test_the_lookback_covers_the_windows_of_alternative_da(chain: ChainFixture) -> None:
    assert Finality(chain.rollup).lookback == 129
    alt_da = AltDaConfig(None, "GenericCommitment", 100, 100)
    assert Finality(msgspec.structs.replace(chain.rollup, alt_da=alt_da)).lookback == 201


def test_with_alt_da_only_what_is_settled_is_final(chain: ChainFixture) -> None:
    """Derivation says up to which L1 block no challenge can take out what was derived [ADA11]."""
    rollup = msgspec.structs.replace(chain.rollup, alt_da=AltDaConfig(bytes(20), "KeccakCommitment", 100, 100))
    finality, refs = filled(chain, rollup=rollup)
    finality.note_finalized_l1(chain.l1_ref(106))
    for settled in (None, 99):
        finality.note_settled_l1(settled)
        assert finality.next(refs[0]) is None
    for settled, block in ((103, 6), (102, 6), (120, 12)):
        finality.note_settled_l1(settled)
        assert run(finality, chain, refs[0]) == refs[block]
    finality.done()
    finality.note_settled_l1(120)
    assert not finality.due
    finality.note_finalized_l1(None)
    finality.note_finalized_l1(chain.l1_ref(106))
    assert finality.next(refs[0]) is None, "what was settled was so on a disproved chain"
