"""The synthetic chain is consistent, and its batches derive to its blocks."""

from random import Random

from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.derivation import DerivationRun
from rollup_node.tools.bench.synthetic_chain import TRANSACTIONS, l1_header, l2_ref, make, origin_number
from rollup_node.tools.fuzz.targets import seeds


def test_references_link_and_follow_their_origins() -> None:
    for number in range(1, 40):
        parent, ref = l2_ref(number - 1), l2_ref(number)
        assert (ref.parent_hash, ref.timestamp) == (parent.hash, parent.timestamp + 2)
        assert ref.timestamp >= l1_header(ref.l1_origin.number).timestamp
        same = ref.l1_origin == parent.l1_origin
        assert ref.sequence_number == (parent.sequence_number + 1 if same else 0)
    assert l1_header(synthetic_chain.L1_GENESIS + 1).parent_hash == l1_header(synthetic_chain.L1_GENESIS).hash


def test_batches_are_after_their_last_origin() -> None:
    chance = Random(1)
    chain = make(130, [seeds.transaction(chance) for _ in range(60)])
    assert len(chain.bodies) == 2
    assert sorted(chain.at) == [origin_number(120) + 1, origin_number(130) + 1]
    assert chain.l1_block(chain.last_l1).inbox
    assert not chain.l1_block(chain.first_l1).inbox


def test_the_chain_derives() -> None:
    chance = Random(2)
    pool = [seeds.transaction(chance) for _ in range(60)]
    run = DerivationRun(make(30, pool))
    assert len(run.attributes) == 30
    assert all(len(each.transactions) == 1 + TRANSACTIONS for each in run.attributes)
