"""A sealed block and what it was to be built from [ATT43, ATT46, ATT47]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.sealed_blocks import SealedMismatch, sealed_mismatch
from tests.support.chains.chain_fixture import ChainFixture, chain_with

DEPOSIT, POOL = b"\x7e\xc0", (b"\x02one", b"\x04two")


@pytest.fixture
def chain() -> ChainFixture:
    return chain_with()


def asked(chain: ChainFixture, pool: bool = False) -> tuple[PayloadAttributes, ExecutionPayload]:
    """Attributes of an L1 info deposit, another deposit and three transactions, and the block that is built of them."""
    attributes = chain.attributes(chain.genesis, 100, [])
    value = (*attributes.transactions, DEPOSIT, b"\x02a", b"\x02b", b"\x02a")
    attributes = msgspec.structs.replace(attributes, transactions=value, no_tx_pool=not pool)
    return attributes, chain.seal(chain.genesis, attributes, POOL if pool else ())


def compare(chain: ChainFixture, pool: bool = False, **changes: Any) -> SealedMismatch | None:
    attributes, block = asked(chain, pool)
    return sealed_mismatch(chain.rollup, attributes, chain.genesis, msgspec.structs.replace(block, **changes))


@pytest.mark.parametrize("pool", [False, True])
def test_the_block_that_was_asked_for(chain: ChainFixture, pool: bool) -> None:
    assert compare(chain, pool) is None


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"block_number": 2}, "sealed block 2 instead of 1"),
        ({"parent_hash": b"\x09" * 32}, "parent hash field does not match"),
        ({"timestamp": 7}, "timestamp field does not match"),
        ({"prev_randao": b"\x09" * 32}, "random field does not match"),
        ({"fee_recipient": b"\x09" * 20}, "fee recipient data does not match"),
        ({"gas_limit": 7}, "gas limit does not match"),
        ({"withdrawals": False}, "expected withdrawals in block to be non-nil"),
        ({"withdrawals_root": None}, "expected withdrawalsRoot in block to be non-nil"),
        ({"parent_beacon_root": None}, "expected non-nil parent beacon block root"),
        ({"extra_data": b"\x00" * 9}, "invalid block extraData"),
        ({"transactions": ()}, "transaction 0 is none instead of 0x"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_another_block_is_a_fault_of_the_engine(
    chain: ChainFixture, pool: bool, changes: dict[str, Any], text: str
) -> None:
    result = compare(chain, pool, **changes)
    assert result is not None and text in result.text and not result.left_out


@pytest.mark.parametrize("kept", [(0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 3, 4), (0, 1, 2, 4)])
def test_left_out_transactions_make_the_attributes_invalid(chain: ChainFixture, kept: tuple[int, ...]) -> None:
    _, block = asked(chain)
    result = compare(chain, transactions=tuple(block.transactions[index] for index in kept))
    assert result is not None and result.left_out
    first = next(index for index in range(5) if index >= len(kept) or kept[index] != index)
    assert f"the engine left out transaction {first} (0x" in result.text
    assert (f"{4 - len(kept)} more" in result.text) is (len(kept) < 4)


@pytest.mark.parametrize("kept", [(1, 2, 3, 4), (0, 2, 3, 4), (0, 1, 3, 2, 4), (0, 1, 2, 3, 4, 4), (0, 1, 3, 3)])
def test_a_deposit_that_is_missing_or_another_order_is_a_fault_of_the_engine(
    chain: ChainFixture, kept: tuple[int, ...]
) -> None:
    _, block = asked(chain)
    result = compare(chain, transactions=tuple(block.transactions[index] for index in kept))
    assert result is not None and not result.left_out and "other transactions than it was given" in result.text


def test_header_fields_count_before_transactions(chain: ChainFixture) -> None:
    result = compare(chain, transactions=(), gas_limit=7)
    assert result is not None and "gas limit" in result.text


def test_a_block_from_the_pool_begins_with_what_was_given(chain: ChainFixture) -> None:
    attributes, _ = asked(chain, pool=True)
    transactions = attributes.transactions
    assert compare(chain, True, transactions=transactions) is None
    result = compare(chain, True, transactions=(*transactions[:2], *transactions[3:], *POOL))
    assert result is not None and not result.left_out and "transaction 2 is 0x" in result.text
    for added, text in ((DEPOSIT, "transaction 6 of the block that the engine sealed is a deposit"), (b"", "6 of the")):
        result = compare(chain, True, transactions=(*transactions, POOL[0], added, POOL[1]))
        assert result is not None and not result.left_out and text in result.text
