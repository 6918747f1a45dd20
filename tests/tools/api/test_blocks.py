"""Blocks of the API, made of what was derived."""

import msgspec

from rollup_node.stages.messages.derivation import Drop, DropEffect
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.tools.api.blocks import Batch, block_of, row_of
from rollup_node.tools.api.tables import COLUMNS
from rollup_node.tools.inspect.channel_sources import BatchSource
from rollup_node.tools.inspect.replay import compare_block
from tests.support.chains.chain_fixture import ChainFixture

SOURCE = BatchSource(b"\xc1" * 16, 99, (b"\x01" * 32,), "span", 12, 5)
DROP = Drop("PX5", "a text", None, False, DropEffect.DROPPED, "span_past", {})


def test_a_block_with_its_batch_and_its_drops(chain: ChainFixture) -> None:
    attributes = chain.attributes(chain.genesis, 100, [chain.user])
    payload = chain.seal(chain.genesis, attributes)
    derived = AttributesReady(1, 1, chain.genesis, attributes, chain.l1_ref(102), True)
    block = block_of(compare_block(chain.rollup, derived, payload), SOURCE, (DROP,), 3)
    assert block.batch == Batch("span", 12, 5, b"\xc1" * 16, 99, (b"\x01" * 32,))
    assert (block.number, block.hash, block.timestamp) == (payload.block_number, payload.block_hash, payload.timestamp)
    assert (block.attributes, block.l1_inclusion, block.l1_origin.number) == (attributes, chain.l1_ref(102), 100)
    assert (block.drops, block.drops_omitted, block.differences) == ((DROP,), 3, ())
    row = row_of(block)
    assert list(row) == list(COLUMNS)
    assert (row["transactions"], row["batch"], row["channel_bytes"], row["drops"]) == (2, "span", 99, ["PX5"])


def test_an_empty_block_that_the_rules_make_and_one_that_differs(chain: ChainFixture) -> None:
    attributes = chain.attributes(chain.genesis, 100)
    derived = AttributesReady(1, 1, chain.genesis, attributes, chain.l1_ref(102), True)
    known = msgspec.structs.replace(chain.seal(chain.genesis, attributes), gas_limit=5)
    block = block_of(compare_block(chain.rollup, derived, known), None, (), 0)
    assert (block.batch, block.hash, len(block.differences)) == (None, None, 1)
    assert row_of(block)["channel"] is None and row_of(block)["differences"] == list(block.differences)
