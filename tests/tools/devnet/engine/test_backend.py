"""The engine's backend: building, filling from the pool, checking payloads, following heads."""

import msgspec
import pytest

from rollup_node.stages.protocol.hashes import payload_block_hash
from rollup_node.tools.devnet.engine.backend import payload_of
from rollup_node.tools.devnet.engine.execution import InvalidBlock
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction
from tests.support.l2_test_chain import L2TestChain


@pytest.mark.parametrize("newest", ["regolith", "canyon", "ecotone", "holocene", "isthmus", "jovian", "karst"])
def test_a_built_block_passes_the_check_of_another_engine(newest: str) -> None:
    l2 = L2TestChain(newest)
    builder, checker = l2.backend(), l2.backend()
    block = l2.extend(builder, l2.deposit(b"\xee" * 20, b"\xdd" * 20, mint=7), l2.transfer(0, 0, value=1))
    payload = payload_of(block)
    assert payload_block_hash(payload) == block.hash
    assert checker.check(checker.chain.head, payload).hash == block.hash


@pytest.mark.parametrize("field", ["state_root", "receipts_root", "gas_used", "base_fee", "withdrawals_root"])
def test_a_wrong_claim_is_named(field: str) -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    payload = payload_of(l2.extend(l2.backend(), l2.transfer(0, 0)))
    value = getattr(payload, field)
    wrong = msgspec.structs.replace(payload, **{field: value + 1 if isinstance(value, int) else b"\x11" * 32})
    wrong = msgspec.structs.replace(wrong, block_hash=payload_block_hash(wrong))
    with pytest.raises(InvalidBlock, match=field):
        backend.check(backend.chain.head, wrong)


def test_blocks_are_filled_from_the_pool_by_price_and_nonce() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    for raw in (l2.transfer(0, 1), l2.transfer(0, 0), l2.transfer(1, 1), l2.transfer(2, 0)):
        backend.send(raw)
    execution = backend.begin(backend.chain.head, l2.attributes(backend.chain.head.header, pool=True))
    backend.fill(execution)
    block = execution.seal()
    sent = [(entry.transaction.sender, entry.transaction.body.nonce) for entry in block.executed[1:]]
    keys = [key.address for key in l2.keys]
    assert sorted(sent) == sorted([(keys[0], 0), (keys[0], 1), (keys[2], 0)])
    assert sent.index((keys[0], 0)) < sent.index((keys[0], 1))
    backend.chain.insert(block)
    backend.set_head(block)
    assert len(backend.pool) == 1
    backend.set_head(backend.chain.genesis)
    assert len(backend.pool) == 4


def test_the_pool_refuses_what_no_block_can_hold() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    l2.extend(backend, l2.transfer(0, 0))
    for raw, problem in (
        (l2.transfer(0, 0), "nonce too low"),
        (b"\x02\xc0", "malformed"),
        (l2.deposit(b"\xee" * 20, b"\xdd" * 20), "type"),
    ):
        with pytest.raises(InvalidTransaction, match=problem):
            backend.send(raw)
    backend.send(l2.transfer(0, 1))
    with pytest.raises(InvalidTransaction, match="already known"):
        backend.send(l2.transfer(0, 1))
    with pytest.raises(InvalidTransaction, match="underpriced"):
        backend.send(l2.transfer(0, 1, value=3))
