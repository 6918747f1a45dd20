"""Lookups in a recording, and the error for what it lacks."""

import pytest

from rollup_node.tools.recorded.recording import NotRecorded, Recording
from tests.support.chains.recordings import BLOB, FIRST, blob_hash


def test_blocks_by_number_and_hash(recording: Recording) -> None:
    block = recording.block(FIRST + 1)
    assert recording.block_by_hash(block.hash) is block
    assert (recording.first, recording.last) == (FIRST, FIRST + 2)
    assert block.header["parentHash"] == "0x" + recording.block(FIRST).hash.hex()
    assert recording.last_with_transactions() is block


def test_blobs_with_their_hashes_in_block_order(recording: Recording) -> None:
    hashes = recording.block(FIRST + 1).blob_hashes()
    assert (len(hashes), hashes[0]) == (2, blob_hash())
    assert recording.blobs[blob_hash()][0] == BLOB
    assert hashes[1] not in recording.blobs
    assert recording.block(FIRST).blob_hashes() == recording.block(FIRST + 2).blob_hashes() == []


def test_receipts_continue_log_indices_and_gas(recording: Recording) -> None:
    first, second = recording.block(FIRST + 1).receipts_json()
    assert [log["logIndex"] for log in (*first["logs"], *second["logs"])] == ["0x0", "0x1", "0x2"]
    assert (first["gasUsed"], second["gasUsed"]) == (hex(21_000), hex(21_000))


def test_a_block_with_hashes_or_full_transactions(recording: Recording) -> None:
    block = recording.block(FIRST + 1)
    full, short = block.block(True), block.block(False)
    assert [transaction["hash"] for transaction in full["transactions"]] == short["transactions"]
    assert full["hash"] == "0x" + block.hash.hex()


def test_missing_data_is_named(recording: Recording) -> None:
    last = recording.block(FIRST + 2)
    for lookup, text in (
        (lambda: recording.block(99), "block 99 was not recorded"),
        (lambda: recording.block_by_hash(bytes(32)), "was not recorded"),
        (lambda: last.block(False), "transactions of L1 block 102"),
        (lambda: last.transactions_json, "transactions of L1 block 102"),
        (last.receipts_json, "receipts of L1 block 102"),
    ):
        with pytest.raises(NotRecorded, match=text):
            lookup()
