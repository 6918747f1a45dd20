"""The engine's chain: building blocks, filling them from the pool, executing payloads, following heads."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.payloads import payload_block_hash
from rollup_node.tools.devnet.engine.backend import FILE_NAME, Journal, drop_last_blocks, payload_of
from rollup_node.tools.devnet.engine.execution import DaLimits, InvalidBlock
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, SignedTransaction
from tests.support.chains.l2_test_chain import L2TestChain


@pytest.mark.parametrize("field", ["state_root", "gas_used", "withdrawals_root"])
def test_a_payload_that_differs_from_its_execution_is_invalid(field: str) -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    payload = payload_of(l2.extend(l2.backend(), l2.transfer(0, 0)))
    value = getattr(payload, field)
    wrong = msgspec.structs.replace(payload, **{field: value + 1 if isinstance(value, int) else b"\x11" * 32})
    wrong = msgspec.structs.replace(wrong, block_hash=payload_block_hash(wrong))
    with pytest.raises(InvalidBlock, match=field):
        backend.check(backend.chain.head, wrong)


def test_blocks_are_filled_from_the_pool_in_nonce_order() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    for raw in (l2.transfer(0, 1), l2.transfer(0, 0), l2.transfer(1, 1), l2.transfer(2, 0)):
        backend.send(raw)
    execution = backend.begin(backend.chain.head, l2.attributes(backend.chain.head.header, pool=True))
    backend.fill(execution)
    block = execution.seal()
    signed = [entry.transaction for entry in block.executed if isinstance(entry.transaction, SignedTransaction)]
    sent = [(transaction.sender, transaction.body.nonce) for transaction in signed]
    assert len(sent) == len(block.executed) - 1
    keys = [key.address for key in l2.keys]
    assert sorted(sent) == sorted([(keys[0], 0), (keys[0], 1), (keys[2], 0)])
    assert sent.index((keys[0], 0)) < sent.index((keys[0], 1))
    backend.chain.insert(block)
    backend.set_head(block)
    assert len(backend.pool) == 1
    backend.set_head(backend.chain.genesis)
    assert len(backend.pool) == 4


def test_a_built_block_keeps_the_limits_of_its_size() -> None:
    """A sender whose transaction is too large waits, and the block takes as many as fit."""
    l2 = L2TestChain()
    backend = l2.backend()
    large = l2.transfer(2, 0, data=Random(1).randbytes(1900), gas=200_000)
    for raw in (l2.transfer(0, 0), l2.transfer(0, 1), l2.transfer(1, 0), large):
        backend.send(raw)

    def included(limits: DaLimits) -> int:
        backend.da_limits = limits
        execution = backend.begin(backend.chain.head, l2.attributes(backend.chain.head.header, pool=True))
        backend.fill(execution)
        return len(execution.executed) - 1

    assert included(DaLimits()) == 4
    assert included(DaLimits(transaction=1_000)) == 3
    assert included(DaLimits(block=250)) == 2
    assert included(DaLimits(transaction=50)) == 0


def test_the_pool_refuses_invalid_transactions() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    l2.extend(backend, l2.transfer(0, 0))
    for raw, error in (
        (l2.transfer(0, 0), "nonce too low"),
        (b"\x02\xc0", "malformed"),
        (l2.deposit(b"\xee" * 20, b"\xdd" * 20), "type"),
    ):
        with pytest.raises(InvalidTransaction, match=error):
            backend.send(raw)
    backend.send(l2.transfer(0, 1))
    with pytest.raises(InvalidTransaction, match="already known"):
        backend.send(l2.transfer(0, 1))
    with pytest.raises(InvalidTransaction, match="underpriced"):
        backend.send(l2.transfer(0, 1, value=3))


def test_entries_are_in_order_and_an_incomplete_line_is_dropped(tmp_path: Path) -> None:
    l2 = L2TestChain()
    payload = payload_of(l2.extend(l2.backend()))
    journal = Journal(tmp_path / "new" / "folder")
    journal.insert(payload)
    journal.follow(payload.block_hash, bytes(32), bytes(32))
    journal.close()
    path = tmp_path / "new" / "folder" / FILE_NAME
    path.write_bytes(path.read_bytes() + b'{"headBlockHash"')
    again = Journal(path.parent)
    block, heads = again.entries()
    assert envelope_from_json(block) == payload
    assert heads["headBlockHash"] == "0x" + payload.block_hash.hex()
    again.follow(bytes(32), bytes(32), bytes(32))
    assert len(list(again.entries())) == 3
    again.close()


def test_a_crash_that_loses_the_last_blocks(tmp_path: Path) -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    payloads = [payload_of(l2.extend(backend)) for _ in range(3)]
    journal = Journal(tmp_path)
    for payload in payloads:
        journal.insert(payload)
        journal.follow(payload.block_hash, bytes(32), bytes(32))
    drop_last_blocks(tmp_path, 2)
    assert [envelope_from_json(entry) for entry in list(journal.entries())[::2]] == payloads[:1]
    drop_last_blocks(tmp_path, 1)
    assert len(list(journal.entries())) == 2, "one block stays"
    journal.close()
