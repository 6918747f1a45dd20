"""The embedded L1's chain: slots, labels, logger contracts, blobs and reorgs."""

import pytest

from rollup_node.tools.batcher.driver import Fees, dynamic_fee_transaction
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.files import (
    DEPOSITOR_KEY,
    L1_CHAIN_ID,
    RECEIVER_KEY,
    l1_genesis,
)
from rollup_node.tools.devnet.l1.backend import L1Backend

GENESIS_TIME = 1_700_000_000
SLOT = 2
GWEI = 10**9
FEES = Fees(GWEI, 50 * GWEI, 50 * GWEI)


@pytest.fixture
def backend() -> L1Backend:
    return L1Backend(l1_genesis(GENESIS_TIME), SLOT)


def _mine(backend: L1Backend, blocks: int = 1) -> None:
    for _ in range(blocks):
        backend.mine(backend.chain.head.header.timestamp + SLOT)


def chain_of(backend: L1Backend, count: int) -> list[Block]:
    """Return the first blocks of the chain."""
    return [block for number in range(count) if (block := backend.chain.at(number))]


def test_a_reorg_replaces_blocks_and_keeps_transactions(backend: L1Backend) -> None:
    with pytest.raises(ValueError, match="there was no reorg"):
        backend.switch_back()
    _mine(backend, 4)
    raw = dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 0, RECEIVER_KEY.address, 1, b"", 21_000, FEES)
    transaction = backend.send(raw)
    _mine(backend, 2)
    old = chain_of(backend, 7)
    backend.reorg(3)
    assert backend.chain.head.number == 7
    fresh = chain_of(backend, 8)
    assert fresh[:4] == old[:4] and not any(block in old for block in fresh[4:])
    location = backend.chain.locate(transaction)
    assert location is not None and location.block.number == 7
    _mine(backend, 2)
    new = chain_of(backend, 10)
    backend.switch_back()
    assert backend.chain.head.number == 10 and chain_of(backend, 7) == old
    times = [block.header.timestamp for block in chain_of(backend, 11)]
    assert times == [GENESIS_TIME + number * SLOT for number in range(11)]
    backend.switch_back()
    assert chain_of(backend, 10) == new, "there and back again"
