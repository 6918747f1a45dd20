"""A batch in one line, as text and as JSON."""

from hashlib import sha256

import msgspec

from rollup_node.node.inspect.batch_summary import BatchSummary, batch_text, batch_values, hashes_digest
from rollup_node.stages.protocol.keccak import keccak256

SINGULAR = BatchSummary(None, None, "singular", 1000, 1, 3, b"\x0a" * 32, b"\x0d" * 32)
SPAN = BatchSummary(7, b"\x0c" * 16, "span", 1002, 9, 12, b"\x0b" * 20, b"\x0d" * 32)


def test_digest_of_transaction_hashes() -> None:
    assert hashes_digest([b"a", b"bc"]) == sha256(keccak256(b"a") + keccak256(b"bc")).digest()
    assert hashes_digest([]) == sha256().digest()


def test_json_leaves_out_what_is_unknown() -> None:
    assert batch_values(SINGULAR) == {
        "kind": "singular",
        "first_timestamp": 1000,
        "blocks": 1,
        "transactions": 3,
        "parent_hash": "0a" * 32,
        "tx_hashes_sha256": "0d" * 32,
    }
    assert batch_values(SPAN) == {
        "inclusion": 7,
        "channel": "0c" * 16,
        "kind": "span",
        "first_timestamp": 1002,
        "blocks": 9,
        "transactions": 12,
        "parent_check": "0b" * 20,
        "tx_hashes_sha256": "0d" * 32,
    }
    assert "inclusion" in batch_values(msgspec.structs.replace(SPAN, inclusion=0))


def test_text_leaves_out_what_is_unknown() -> None:
    digest = "0d" * 32
    assert batch_text(SINGULAR) == f"singular  time 1000  blocks 1  transactions 3  {digest}"
    assert batch_text(SPAN) == (f"L1 7  channel {'0c' * 16}  span  time 1002  blocks 9  transactions 12  {digest}")
