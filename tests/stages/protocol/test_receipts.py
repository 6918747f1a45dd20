"""Receipts: encoding, roots, and the logs in them [DEP13, DEP29, DEP31]."""

from typing import Any

import pytest

from rollup_node.stages.protocol import receipts, rlp
from rollup_node.stages.protocol.rlp import RlpError

ADDRESS, TOPIC = b"\x77" * 20, b"\x01" * 32
LOG = {"address": "0x" + ADDRESS.hex(), "topics": ["0x" + TOPIC.hex()], "data": "0xabcd", "logIndex": "0x0"}
RECEIPT: dict[str, Any] = {
    "type": "0x2",
    "status": "0x1",
    "cumulativeGasUsed": "0x5208",
    "logsBloom": "0x" + "00" * 256,
    "logs": [LOG],
}


def raw(status: Any = b"\x01", logs: Any = (), kind: int = 2) -> bytes:
    body = rlp.encode([status, b"\x05", bytes(256), logs])
    return body if kind == 0 else bytes([kind]) + body


def test_receipts_with_a_state_root() -> None:
    old = {name: value for name, value in RECEIPT.items() if name not in ("type", "status")} | {
        "root": "0x" + "09" * 32
    }
    assert receipts.decode_receipt(receipts.receipt_from_json(old)).succeeded is None


def test_deposit_receipts_carry_their_nonce_with_a_version() -> None:
    """Before Canyon an L2's receipts show a nonce that is not in its receipts root [HSH9]."""
    base = RECEIPT | {"type": "0x7e"}
    for extra in ({}, {"depositNonce": "0x28"}, {"depositNonce": "0x28", "depositReceiptVersion": "0x1"}):
        encoded = receipts.receipt_from_json(base | extra)
        fields = rlp.decode_list(encoded[1:])
        assert len(fields) == (6 if "depositReceiptVersion" in extra else 4)
        assert receipts.receipt_from_raw(encoded) == encoded
        assert receipts.receipt_from_raw(b"\x7e" + rlp.encode([*fields[:4], b"\x28"])) == b"\x7e" + rlp.encode(
            fields[:4]
        )
        assert receipts.decode_receipt(encoded).kind == 0x7E


@pytest.mark.parametrize(
    "encoded",
    [
        raw(status=b"\x02"),
        raw(status=b"\x00"),
        raw(logs=b""),
        raw(logs=[[ADDRESS, [TOPIC]]]),
        raw(logs=[[ADDRESS[1:], [TOPIC], b""]]),
        raw(logs=[[ADDRESS, [TOPIC[1:]], b""]]),
        raw(logs=[[ADDRESS, [TOPIC], []]]),
        raw(kind=0x80),
        b"\x02" + rlp.encode([b"\x01", b"\x05", bytes(256), [], b""]),
        b"\x02" + rlp.encode([b"\x01", b"\x05", bytes(255), []]),
    ],
)
def test_other_forms_are_no_receipts(encoded: bytes) -> None:
    with pytest.raises(RlpError):
        receipts.decode_receipt(encoded)


def test_logs_are_numbered_over_the_block_and_filtered() -> None:
    other, wanted = [b"\x88" * 20, [TOPIC], b""], [ADDRESS, [TOPIC], b"x"]
    block = [
        raw(logs=[other, wanted]),
        raw(status=b"", logs=[wanted]),
        raw(logs=[other, other], kind=0),
        raw(logs=[[ADDRESS, [], b""], [ADDRESS, [b"\x02" * 32, TOPIC], b""], wanted], kind=0x55),
        raw(logs=[[b"\x88" * 20, [TOPIC], ADDRESS]]),
    ]
    result = receipts.logs_of_receipts(block, {(ADDRESS, TOPIC)})
    assert [(log.index, log.address, log.topics, log.data) for log in result] == [
        (1, ADDRESS, (TOPIC,), b"x"),
        (7, ADDRESS, (TOPIC,), b"x"),
    ]
    both = receipts.logs_of_receipts(block, {(ADDRESS, TOPIC), (b"\x88" * 20, TOPIC)})
    assert [log.index for log in both] == [0, 1, 3, 4, 7, 8]


def test_a_receipt_of_unknown_form_counts_as_without_logs() -> None:
    strange = b"\x55" + rlp.encode([ADDRESS] * 7)
    block = [strange, b"\x02", ADDRESS, raw(logs=[[ADDRESS, [TOPIC], b""]])]
    result = receipts.logs_of_receipts(block, {(ADDRESS, TOPIC)})
    assert [log.index for log in result] == [0]
