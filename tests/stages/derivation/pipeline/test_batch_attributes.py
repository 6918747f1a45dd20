"""The attributes of an accepted batch. What is derived ahead of the engine's answers is what is derived after
them: the chain checks each block of it."""

import pytest

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.batch_attributes import (
    Chains,
    batch_attributes,
    block_of,
    is_predicted,
    payload_transactions,
)
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import AwaitSafeHead
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.unexecutable import least_gas
from tests.conformance.kit.chain import (
    GENESIS,
    L1_CHAIN,
    SYSTEM_CONFIG,
    L1Blocks,
    abi_words,
    config_log,
    forks_until,
    rollup,
)
from tests.conformance.kit.planning import USER, channel, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain
from tests.stages.derivation.codec.test_packed import packed_transactions

CHAINS = Chains(rollup(forks_until("holocene")), L1_CHAIN)


def batch(epoch: int) -> SingularBatch:
    return SingularBatch(GENESIS.hash, epoch, bytes(32), GENESIS.timestamp + 2, (USER,))


def test_an_epoch_that_does_not_follow_needs_a_reset() -> None:
    blocks = L1Blocks()
    blocks.add()
    blocks.add()
    window = L1OriginWindow(blocks.last)
    with pytest.raises(ResetError):
        batch_attributes(CHAINS, window, batch(window.first_number), GENESIS, SYSTEM_CONFIG)
    with pytest.raises(CriticalError, match="is not known"):
        batch_attributes(CHAINS, window, batch(window.first_number + 1), GENESIS, SYSTEM_CONFIG)


GAS_LIMIT = 30_000_000


def test_blocks_that_may_be_built_are_whole() -> None:
    transactions = (b"\x02" * 100_000,) * 140
    assert tuple(payload_transactions(transactions, 0)) == transactions, "plain ones are never cut"
    assert tuple(payload_transactions(packed_transactions(*transactions), GAS_LIMIT)) == transactions


def test_the_rest_beyond_the_gas_limit_is_left_out() -> None:
    result = list(payload_transactions(packed_transactions(*[b"\x02"] * 50_000), GAS_LIMIT))
    assert result == [b"\x02"] * 15_001
    assert sum(least_gas(2, len(transaction)) for transaction in result) > GAS_LIMIT


def test_a_large_transaction_is_cut_off_beyond_the_gas_limit() -> None:
    (result,) = payload_transactions(packed_transactions(b"\x02" * 40_000_000), GAS_LIMIT)
    assert len(result) < 16_000_000
    assert least_gas(2, len(result)) > GAS_LIMIT


def test_a_post_exec_transaction_is_neither_counted_nor_cut_and_the_last() -> None:
    """One that follows it shows that the block is invalid [V15]."""
    users, post_exec = (b"\x02" * 100_000,) * 140, b"\x7d" * 20_000_000
    assert tuple(payload_transactions(packed_transactions(*users, post_exec), GAS_LIMIT)) == (*users, post_exec)
    for following in (b"\x7d", b"\x02"):
        result = tuple(payload_transactions(packed_transactions(*users, post_exec, *[following] * 5_000), GAS_LIMIT))
        assert result == (*users, post_exec, following)


FORKS = ("granite", "holocene", "jovian")
BLOCKS = 20


def chain_with(forks: str, *items: bytes) -> RollupChain:
    """L1 blocks up to the last epoch of the plan, then one with these items, and one more."""
    chain = RollupChain(forks_until(forks))
    chain.mine(updates=[config_log(2, abi_words(32, 32, 40_000_000))])
    for _ in range(4):
        chain.mine()
    chain.mine(*items)
    chain.mine()
    return chain


def ahead_of_first(chain: RollupChain) -> list[AttributesReady]:
    """Return what can be derived ahead of the first attributes."""
    chain.depth = 0
    chain.run(until=lambda output: isinstance(output, AttributesReady))
    result = []
    while (output := chain.deriver.ahead()) is not None:
        result.append(output)
    return result


@pytest.mark.parametrize("forks", FORKS)
def test_the_rest_of_a_span_is_derived_ahead(forks: str) -> None:
    """Over several epochs, the first of which changes the gas limit."""
    blocks = plan(GENESIS, BLOCKS)
    chain = chain_with(forks, *channel("A", span(blocks)))
    result = ahead_of_first(chain)
    assert [item.parent.number for item in result] == list(range(1, BLOCKS))
    before = forks == "granite"
    assert [item.concluding for item in result] == [not before] * (BLOCKS - 2) + [True]
    assert all(is_predicted(item.parent, block.ref) for item, block in zip(result, blocks, strict=False))
    limits = {item.attributes.gas_limit for item in result}
    assert 40_000_000 in limits and len(limits) == 2
    again = chain_with(forks, *channel("A", span(blocks)))
    assert refs(again.run()) == refs(blocks)
    assert [block.output.attributes for block in again.l2[2:] if block.output] == [item.attributes for item in result]


def test_nothing_is_derived_ahead_of_a_batch_whose_parent_is_unknown() -> None:
    first, second = plan(GENESIS, 2)
    chain = chain_with("holocene", *channel("A", first.singular), *channel("B", span([second])))
    assert chain.deriver.ahead() is None, "nothing was derived"
    assert ahead_of_first(chain) == [], "a singular batch ends with its block"
    assert chain.deriver.step(GENESIS, chain.l2[0].config) == AwaitSafeHead()


def test_what_is_lost_is_derived_ahead_again() -> None:
    chain = chain_with("holocene", *channel("A", span(plan(GENESIS, BLOCKS))))
    result = ahead_of_first(chain)
    assert chain.deriver.ahead() is None
    chain.deriver.cancel_ahead()
    assert [chain.deriver.ahead() for _ in result] == result


def test_attributes_that_say_nothing_of_their_block() -> None:
    chain = chain_with("granite", *channel("A", span(plan(GENESIS, 2, (USER,)))))
    ahead_of_first(chain)
    output = chain.last_output
    assert isinstance(output, AttributesReady) and block_of(chain.config, output) is not None
    attributes = PayloadAttributes(1, b"", b"", False, None, (), True, 1, None, None)
    assert block_of(chain.config, AttributesReady(0, 0, GENESIS, attributes, output.derived_from, False)) is None
