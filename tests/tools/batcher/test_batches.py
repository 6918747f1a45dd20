"""What the encoder writes, the derivation's decoder reads back."""

from dataclasses import replace
from random import Random

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch, decode_singular
from rollup_node.stages.derivation.codec.span_batch import SpanRules, decode_span
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.batches import BatchBlock, parse_block, singular_batch, span_batch
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.fuzz.targets import seeds
from tests.support.chains.l2_test_chain import START, L2TestChain

GENESIS_TIME, CHAIN_ID, BLOCK_TIME = seeds.GENESIS_TIME, seeds.CHAIN_ID, seeds.BLOCK_TIME
RULES = SpanRules(CHAIN_ID, GENESIS_TIME, BLOCK_TIME)


def _blocks(origins: list[int], *transactions: bytes) -> list[BatchBlock]:
    times = (GENESIS_TIME + BLOCK_TIME * number for number in range(1, 1 + len(origins)))
    return [
        BatchBlock(bytes([number]) * 32, time, BlockId(origin, bytes([origin]) * 32), transactions)
        for number, (time, origin) in enumerate(zip(times, origins, strict=True), 1)
    ]


def test_singular_batch_round_trip() -> None:
    block = BatchBlock(b"p" * 32, 2**40, BlockId(0, b"e" * 32), (b"", b"\x02abc"))
    decoded = decode_singular(singular_batch(block), 1)
    assert (decoded.parent_hash, decoded.timestamp, decoded.transactions) == (b"p" * 32, 2**40, (b"", b"\x02abc"))
    assert (decoded.epoch_number, decoded.epoch_hash) == (0, b"e" * 32)


def _decoded_span(blocks: list[BatchBlock], parent_origin: int) -> SpanBatch:
    decoded = decode_span(span_batch(blocks, GENESIS_TIME, parent_origin), 1, RULES)
    assert isinstance(decoded, SpanBatch)
    return decoded


@pytest.mark.parametrize(
    ("parent_origin", "origins", "first_epoch"), [(7, [7, 7, 8], 7), (6, [7, 7, 8], 7), (7, [8, 8, 8], 8), (7, [7], 7)]
)
def test_span_batch_carries_the_origin_of_each_block(parent_origin: int, origins: list[int], first_epoch: int) -> None:
    decoded = _decoded_span(_blocks(origins), parent_origin)
    assert [block.epoch_number for block in decoded.blocks()] == origins
    assert (decoded.first_epoch, decoded.last_epoch) == (first_epoch, origins[-1])


def test_span_batch_round_trip_of_all_transaction_types() -> None:
    chance = Random(3)
    transactions = tuple(seeds.transaction(chance) for _ in range(60))
    assert {raw[0] if raw[0] < 0x80 else 0 for raw in transactions} == set(seeds.KINDS)
    blocks = _blocks([7, 8], *transactions)
    decoded = _decoded_span(blocks, 7)
    assert [block.transactions for block in decoded.blocks()] == [transactions, transactions]
    assert [block.timestamp for block in decoded.blocks()] == [block.timestamp for block in blocks]
    assert (decoded.parent_check, decoded.origin_check) == (bytes([1]) * 20, bytes([8]) * 20)


def test_span_batch_with_post_exec_transactions() -> None:
    """Their bytes are kept, and their columns are those that the conversion asks for [CV6]."""
    chance, raw = Random(4), bytes.fromhex("7dc30105c0")
    other = seeds.transaction(chance)
    decoded = _decoded_span([*_blocks([7], other, raw), *_blocks([7], raw), *_blocks([8], other, other, raw)], 7)
    assert [block.transactions for block in decoded.blocks()] == [(other, raw), (raw,), (other, other, raw)]
    alone = _blocks([7, 7], raw)
    alone[0] = replace(alone[0], transactions=())
    encoded = span_batch(alone, GENESIS_TIME, 7)
    assert encoded.endswith(bytes.fromhex(f"0200000101{'00' * 65}7dc30105c00000"))


@pytest.mark.parametrize("raw", [b"\x03\xc0", b"\x7e\xc0"])
def test_span_batch_refuses_other_transaction_types(raw: bytes) -> None:
    with pytest.raises(ValueError, match=f"type {raw[0]}"):
        span_batch(_blocks([7], raw), GENESIS_TIME, 7)


@pytest.mark.parametrize("newest", ["", "regolith", "ecotone", "isthmus", "jovian"])
def test_parse_block_of_each_l1_info_layout(newest: str) -> None:
    chain = L2TestChain(newest)
    backend = chain.backend()
    first = chain.extend(backend)
    signed = chain.transfer(0, 0)
    block = chain.extend(backend, signed)
    raw = from_hex(EthApi(backend, "test").methods()["debug_getRawBlock"](hex(block.number)))
    parsed = parse_block(block.number, raw)
    assert (parsed.hash, parsed.batch.parent_hash) == (block.hash, first.hash)
    assert (parsed.origin_time, parsed.batch.timestamp) == (START + 4, START + 4)
    assert parsed.batch.epoch == BlockId(7, bytes([7]) * 32)
    assert parsed.batch.transactions == (signed,)


def test_a_block_without_the_l1_attributes_deposit_is_refused() -> None:
    header = [bytes(32), *[b""] * 10, b"\x01"]
    with pytest.raises(ValueError, match="not a deposit"):
        parse_block(1, rlp.encode([header, [b"\x02\xc0"]]))
