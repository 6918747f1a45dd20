"""The blocks of benchmarks are consistent, and their transactions differ."""

from rollup_node.stages.protocol.payloads import payload_block_hash
from rollup_node.stages.protocol.transactions import decode_transaction
from rollup_node.tools.bench.sealed_blocks import genesis_payload, pool


def test_the_pool_has_different_transactions() -> None:
    transactions = pool(200)
    assert len(set(transactions)) == 200
    assert decode_transaction(transactions[7]).nonce == 7


def test_the_genesis_block_has_its_hash() -> None:
    genesis = genesis_payload(1_770_000_000)
    assert (genesis.block_number, payload_block_hash(genesis)) == (0, genesis.block_hash)
