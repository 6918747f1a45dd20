"""JSON-RPC objects made from RLP agree with what the node's own parsers read from them."""

import msgspec

from rollup_node.stages.protocol.headers import decode_header, encode_header, header_from_json, header_hash
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transactions import (
    Transaction,
    encode_transaction,
    signing_hash,
)
from rollup_node.tools.batcher.signing import Key
from rollup_node.tools.devnet.evm.state import EventLog
from rollup_node.tools.devnet.evm.state_transition.block import encode_receipt
from rollup_node.tools.recorded.responses import block_json, header_json, receipt_json, transaction_json
from tests.support.chains.recordings import header_of
from tests.support.chains.signed_transactions import unsigned_transaction

KEY = Key(b"\x09" * 32)
CHAIN_ID = 901


def _signed(kind: int, chain_id: int | None = CHAIN_ID) -> Transaction:
    unsigned = unsigned_transaction(kind, chain_id)
    parity, r, s = KEY.sign(signing_hash(unsigned))
    return msgspec.structs.replace(unsigned, y_parity=parity, r=r, s=s)


def test_header_fields_parse_back() -> None:
    header = header_of(100, bytes(32))
    raw = encode_header(header)
    found = header_json(header_hash(header), raw)
    assert header_from_json(found) == decode_header(raw) == header
    assert "requestsHash" not in found
    assert block_json(found, raw, [])["size"] == hex(len(raw))


def test_transactions_of_all_types() -> None:
    for kind in range(5):
        raw = encode_transaction(_signed(kind))
        found = transaction_json(raw, 2, b"h" * 32, 100, 50)
        assert (found["from"], found["hash"]) == (to_hex(KEY.address), to_hex(keccak256(raw)))
        assert (found["type"], found["transactionIndex"], found["input"]) == (hex(kind), "0x2", "0x0102")
        assert found["to"] == (None if kind == 1 else to_hex(b"\xaa" * 20))
        assert found["gasPrice"] == (hex(57) if kind >= 2 else hex(90))
        assert int(found["chainId"], 16) == CHAIN_ID
    assert transaction_json(encode_transaction(_signed(3)), 0, b"", 1, 1)["blobVersionedHashes"] == [
        to_hex(b"\x01" * 32)
    ]
    access = transaction_json(encode_transaction(_signed(1)), 0, b"", 1, 1)["accessList"]
    assert access == [{"address": to_hex(b"\xbb" * 20), "storageKeys": [to_hex(b"\xcc" * 32)]}]
    authorization = transaction_json(encode_transaction(_signed(4)), 0, b"", 1, 1)["authorizationList"][0]
    assert (authorization["chainId"], authorization["nonce"]) == (hex(CHAIN_ID), "0x1")


def test_a_legacy_transaction_without_chain_id() -> None:
    found = transaction_json(encode_transaction(_signed(0, None)), 0, b"h" * 32, 100, 50)
    assert found["from"] == to_hex(KEY.address)
    assert "chainId" not in found


def test_receipt_fields() -> None:
    logs = (EventLog(b"\xaa" * 20, (b"\x01" * 32,), b"xy"),)
    transaction = transaction_json(encode_transaction(_signed(2)), 4, b"h" * 32, 100, 50)
    found = receipt_json(encode_receipt(2, False, 60_000, 0, logs), transaction, 9, 20_000)
    assert (found["status"], found["gasUsed"], found["type"]) == ("0x0", hex(40_000), "0x2")
    assert (found["logs"][0]["logIndex"], found["logs"][0]["data"]) == ("0x9", "0x7879")
    assert (found["transactionIndex"], found["effectiveGasPrice"]) == ("0x4", hex(57))
