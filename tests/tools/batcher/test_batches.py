"""What only some batches have, and what is read of a block. The tests of the derivation read back all other batches."""

from dataclasses import replace
from random import Random

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.codec.span_batch import SpanRules, decode_span
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.batches import BatchBlock, parse_block, span_batch
from rollup_node.tools.fuzz.targets import seeds

GENESIS_TIME, CHAIN_ID, BLOCK_TIME = seeds.GENESIS_TIME, seeds.CHAIN_ID, seeds.BLOCK_TIME
RULES = SpanRules(CHAIN_ID, GENESIS_TIME, BLOCK_TIME)


def _blocks(origins: list[int], *transactions: bytes) -> list[BatchBlock]:
    times = (GENESIS_TIME + BLOCK_TIME * number for number in range(1, 1 + len(origins)))
    return [
        BatchBlock(bytes([number]) * 32, time, BlockId(origin, bytes([origin]) * 32), transactions)
        for number, (time, origin) in enumerate(zip(times, origins, strict=True), 1)
    ]


def _decoded_span(blocks: list[BatchBlock], parent_origin: int) -> SpanBatch:
    decoded = decode_span(span_batch(blocks, GENESIS_TIME, parent_origin), 1, RULES)
    assert isinstance(decoded, SpanBatch)
    return decoded


def test_span_batch_with_post_exec_transactions() -> None:
    """Their bytes are kept, and their columns are those that the conversion asks for [CV6]."""
    chance, raw = Random(3), bytes.fromhex("7dc30105c0")
    others = tuple(seeds.transaction(chance) for _ in range(40))
    assert {other[0] if other[0] < 0x80 else 0 for other in others} == set(seeds.KINDS)
    decoded = _decoded_span([*_blocks([7], *others, raw), *_blocks([7], raw), *_blocks([8], *others, raw)], 7)
    assert [block.transactions for block in decoded.blocks()] == [(*others, raw), (raw,), (*others, raw)]
    alone = _blocks([7, 7], raw)
    alone[0] = replace(alone[0], transactions=())
    encoded = span_batch(alone, GENESIS_TIME, 7)
    assert encoded.endswith(bytes.fromhex(f"0200000101{'00' * 65}7dc30105c00000"))


@pytest.mark.parametrize("raw", [b"\x03\xc0", b"\x7e\xc0"])
def test_span_batch_refuses_other_transaction_types(raw: bytes) -> None:
    with pytest.raises(ValueError, match=f"type {raw[0]}"):
        span_batch(_blocks([7], raw), GENESIS_TIME, 7)


def test_a_block_without_the_l1_attributes_deposit_is_refused() -> None:
    header = [bytes(32), *[b""] * 10, b"\x01"]
    with pytest.raises(ValueError, match="not a deposit"):
        parse_block(1, rlp.encode([header, [b"\x02\xc0"]]))
