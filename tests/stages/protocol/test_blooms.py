"""Logs blooms, made-up ones and those of recorded blocks."""

import gzip
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import blooms
from rollup_node.stages.protocol.headers import decode_header
from rollup_node.stages.protocol.receipts import decode_receipt
from tests.support.chains.logs_bloom import logs_bloom


@given(st.lists(st.binary(min_size=20, max_size=32), min_size=1, max_size=10))
def test_a_bloom_never_excludes_its_values(values: list[bytes]) -> None:
    bloom = logs_bloom(values)
    assert blooms.may_have(bloom, *map(blooms.bloom_mask, values))
    assert not blooms.may_have(bytes(256), blooms.bloom_mask(values[0]))
    assert blooms.may_have(b"\xff" * 256, blooms.bloom_mask(values[0]))


def test_each_value_sets_at_most_three_bits() -> None:
    assert blooms.bloom_mask(b"\x01" * 20).bit_count() == 3
    assert logs_bloom([]) == bytes(256)


def test_blooms_of_recorded_receipts(shared_data: Path) -> None:
    lines = gzip.decompress((shared_data / "op_sepolia_replay" / "l1_blocks.jsonl.gz").read_bytes()).splitlines()
    for line in lines[:6]:
        block = json.loads(line)
        union = 0
        for text in block.get("receipts", []):
            receipt = decode_receipt(bytes.fromhex(text))
            values = [value for address, topics, _ in receipt.logs for value in (address, *topics)]
            assert logs_bloom(values) == receipt.logs_bloom
            union |= int.from_bytes(receipt.logs_bloom, "big")
        if "receipts" in block:
            header = decode_header(bytes.fromhex(block["header_rlp"]))
            assert union == int.from_bytes(header.logs_bloom, "big")
