"""The engine's ledger: building, filling from the pool, checking payloads, following heads."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.block_hash import payload_block_hash
from rollup_node.tools.devnet.engine.execution import InvalidBlock
from rollup_node.tools.devnet.engine.ledger import payload_of
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction


@pytest.mark.parametrize("newest", ["regolith", "canyon", "ecotone", "holocene", "isthmus", "jovian", "karst"])
def test_a_built_block_passes_the_check_of_another_engine(small_chain: Any, newest: str) -> None:
    small = small_chain(newest)
    builder, checker = small.ledger(), small.ledger()
    block = small.extend(builder, small.deposit(b"\xee" * 20, b"\xdd" * 20, mint=7), small.transfer(0, 0, value=1))
    payload = payload_of(block)
    assert payload_block_hash(payload) == block.hash
    assert checker.check(checker.chain.head, payload).hash == block.hash


@pytest.mark.parametrize("field", ["state_root", "receipts_root", "gas_used", "base_fee", "withdrawals_root"])
def test_a_wrong_claim_is_named(small_chain: Any, field: str) -> None:
    small = small_chain()
    ledger = small.ledger()
    payload = payload_of(small.extend(small.ledger(), small.transfer(0, 0)))
    value = getattr(payload, field)
    wrong = msgspec.structs.replace(payload, **{field: value + 1 if isinstance(value, int) else b"\x11" * 32})
    wrong = msgspec.structs.replace(wrong, block_hash=payload_block_hash(wrong))
    with pytest.raises(InvalidBlock, match=field):
        ledger.check(ledger.chain.head, wrong)


def test_blocks_are_filled_from_the_pool_by_price_and_nonce(small_chain: Any) -> None:
    small = small_chain()
    ledger = small.ledger()
    for raw in (small.transfer(0, 1), small.transfer(0, 0), small.transfer(1, 1), small.transfer(2, 0)):
        ledger.send(raw)
    execution = ledger.begin(ledger.chain.head, small.attributes(ledger.chain.head.header, pool=True))
    ledger.fill(execution)
    block = execution.seal()
    sent = [(entry.transaction.sender, entry.transaction.body.nonce) for entry in block.executed[1:]]
    keys = [key.address for key in small.keys]
    assert sorted(sent) == sorted([(keys[0], 0), (keys[0], 1), (keys[2], 0)])
    assert sent.index((keys[0], 0)) < sent.index((keys[0], 1))
    ledger.chain.insert(block)
    ledger.set_head(block)
    assert len(ledger.pool) == 1
    ledger.set_head(ledger.chain.genesis)
    assert len(ledger.pool) == 4


def test_the_pool_refuses_what_no_block_can_hold(small_chain: Any) -> None:
    small = small_chain()
    ledger = small.ledger()
    small.extend(ledger, small.transfer(0, 0))
    for raw, problem in (
        (small.transfer(0, 0), "nonce too low"),
        (b"\x02\xc0", "malformed"),
        (small.deposit(b"\xee" * 20, b"\xdd" * 20), "type"),
    ):
        with pytest.raises(InvalidTransaction, match=problem):
            ledger.send(raw)
    ledger.send(small.transfer(0, 1))
    with pytest.raises(InvalidTransaction, match="already known"):
        ledger.send(small.transfer(0, 1))
    with pytest.raises(InvalidTransaction, match="underpriced"):
        ledger.send(small.transfer(0, 1, value=3))
