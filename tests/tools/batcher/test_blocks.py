"""Blocks of an execution engine as the batcher parses them."""

import pytest

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.blocks import parse_block
from rollup_node.tools.devnet.chain.eth_api import EthApi
from tests.support.chains.l2_test_chain import START, L2TestChain


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
