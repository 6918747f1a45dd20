"""The transactions of span batches: fields of restored ones, payloads that cannot be restored, recorded vectors."""

from pathlib import Path

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.codec.span_batch import SpanRules, decode_span
from rollup_node.stages.derivation.codec.span_transactions import (
    RawTransactions,
    SpanTransactionError,
    restore_transactions,
)
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.rlp import encode_bytes, encode_int, wrap_list
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.batches import BatchBlock, span_batch

CHAIN_ID = 10
TO = b"t" * 20
R, S = b"\x11" * 32, b"\x22" * 32


def _raw(*payloads: bytes, parity: int = 0, created: int = 0, protected: int = 0) -> RawTransactions:
    """Columns of transactions with these payloads, nonce 7 and gas limit 21000."""
    offsets, data = [], b""
    for payload in payloads:
        offsets.append(len(data))
        data += payload
    kinds = bytes(payload[0] if payload[0] < 0x80 else 0 for payload in payloads)
    count = len(payloads)
    return RawTransactions(
        data + b"tail",
        kinds,
        [*offsets, len(data)],
        (R + S) * count,
        TO * count,
        [7] * count,
        [21_000] * count,
        created,
        parity,
        protected,
    )


def _one(payload: bytes, parity: int = 0, protected: int = 0) -> bytes:
    return list(restore_transactions(_raw(payload, parity=parity, protected=protected), CHAIN_ID))[-1]


def _payload(kind: int, *fields: bytes) -> bytes:
    return (bytes((kind,)) if kind else b"") + wrap_list(b"".join(fields))


def _legacy(value: bytes = b"\x01", price: bytes = b"\x02", data: bytes = b"\x80", *more: bytes) -> bytes:
    return _payload(0, value, price, data, *more)


DYNAMIC = _payload(2, b"\x01", b"\x02", b"\x03", b"\x80", b"\xc0")
AUTHORIZATION = wrap_list(b"\x0a\x94" + TO + b"\x80\x01" + encode_bytes(R) + encode_bytes(S))
SET_CODE = _payload(4, b"\x01", b"\x02", b"\x03", b"\x80", b"\xc0", wrap_list(AUTHORIZATION))


def _fields(encoded: bytes) -> list[rlp.Item]:
    result = rlp.decode(encoded[1:] if encoded[0] < 0x80 else encoded)
    assert isinstance(result, list)
    return result


@pytest.mark.parametrize(
    ("parity", "protected", "v"),
    [pytest.param(0, 0, 27, id="unprotected"), pytest.param(1, 1, 56, id="protected, odd")],
)
def test_legacy_v(parity: int, protected: int, v: int) -> None:
    fields = _fields(_one(_legacy(), parity=parity, protected=protected))
    assert fields == [b"\x07", b"\x02", encode_int(21_000)[1:], TO, b"\x01", b"", bytes((v,)), R, S]


def test_type_2() -> None:
    fields = _fields(_one(DYNAMIC))
    assert fields == [b"\x0a", b"\x07", b"\x02", b"\x03", encode_int(21_000)[1:], TO, b"\x01", b"", [], b"", R, S]


def test_type_4() -> None:
    fields = _fields(_one(SET_CODE))
    assert fields[9] == [[b"\x0a", TO, b"", b"\x01", R, S]]


def test_access_lists_are_copied() -> None:
    entry = wrap_list(b"\x94" + TO + wrap_list(encode_bytes(R) + encode_bytes(S)))
    fields = _fields(_one(_payload(2, b"\x01", b"\x02", b"\x03", b"\x80", wrap_list(entry))))
    assert fields[8] == [[TO, [R, S]]]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(_legacy(value=b"\x00"), id="zero as a byte"),
        pytest.param(_legacy(value=b"\x81\x01"), id="one byte in long form"),
        pytest.param(_legacy(value=b"\xc0"), id="a list as a number"),
        pytest.param(_legacy(data=b"\xc0"), id="a list as call data"),
        pytest.param(_legacy(data=b"\x81\x05"), id="call data not canonical"),
        pytest.param(_payload(0, b"\x01", b"\x02"), id="two fields"),
        pytest.param(_payload(0), id="no fields"),
        pytest.param(_payload(0, b"\x01", b"\x02", b"\x84abc"), id="call data beyond the list"),
        pytest.param(_payload(0, b"\x01", b"\xb7"), id="a number beyond the list"),
        pytest.param(b"\x00" + _legacy(), id="a type byte of 0"),
        pytest.param(b"\x03" + _legacy(), id="type 3"),
        pytest.param(b"\x7e" + _legacy(), id="a deposit"),
        pytest.param(_payload(2, b"\x01", b"\x02", b"\x03", b"\x80"), id="no access list"),
        pytest.param(_payload(2, b"\x01", b"\x02", b"\x03", b"\x80", b"\x80"), id="a string as access list"),
        pytest.param(_payload(2, b"\x01", b"\x02", b"\x03", b"\x80", b"\xc0", b"\xc0"), id="a list too many"),
        pytest.param(
            _payload(1, b"\x01", b"\x02", b"\x80", wrap_list(wrap_list(b"\x93" + TO[1:] + b"\xc0"))), id="address of 19"
        ),
        pytest.param(
            _payload(1, b"\x01", b"\x02", b"\x80", wrap_list(wrap_list(b"\x94" + TO + b"\xc0\x80"))),
            id="three in entry",
        ),
        pytest.param(
            _payload(4, b"\x01", b"\x02", b"\xa1" + b"\x01" * 33, b"\x80", b"\xc0", b"\xc0"), id="setcode fee cap 33"
        ),
        pytest.param(
            _payload(4, b"\x01", b"\x02", b"\x03", b"\x80", b"\xc0", wrap_list(wrap_list(AUTHORIZATION))),
            id="authorization too deep",
        ),
        pytest.param(
            _payload(
                4,
                b"\x01",
                b"\x02",
                b"\x03",
                b"\x80",
                b"\xc0",
                wrap_list(
                    wrap_list(b"\x0a\x94" + TO + b"\x89" + b"\x01" * 9 + b"\x01" + encode_bytes(R) + encode_bytes(S))
                ),
            ),
            id="authorization nonce of 9 bytes",
        ),
        pytest.param(
            _payload(
                4,
                b"\x01",
                b"\x02",
                b"\x03",
                b"\x80",
                b"\xc0",
                wrap_list(wrap_list(b"\x0a\x94" + TO + b"\x01\x82\x01\x00" + encode_bytes(R) + encode_bytes(S))),
            ),
            id="authorization parity of 2 bytes",
        ),
    ],
)
def test_not_restored(payload: bytes) -> None:
    with pytest.raises(SpanTransactionError) as caught:
        list(restore_transactions(_raw(DYNAMIC, payload), CHAIN_ID))
    assert caught.value.index == 1
    assert str(caught.value)


def test_all_filled_columns_of_a_post_exec_transaction_are_named() -> None:
    raw, payload = _raw(b"\x7d\xc0", parity=1), b"\x7d\xc0"
    with pytest.raises(SpanTransactionError, match=r"with recipient, y parity, r, s, nonce, gas limit$"):
        list(restore_transactions(raw, CHAIN_ID))
    empty = raw._replace(signatures=bytes(64), nonces=[0], gas_limits=[0], creation_bits=1, parity_bits=0)
    assert list(restore_transactions(empty, CHAIN_ID)) == [payload]


@pytest.mark.parametrize("name", ["fulltxacc", "fulltxdyn", "fulltxlegacy", "fulltxunprotected"])
def test_recorded_transactions(shared_data: Path, name: str) -> None:
    lines = (shared_data / "span_batch_vectors" / f"{name}.txt").read_text().split()
    transactions = tuple(bytes.fromhex(line[2:]) for line in lines)
    block = BatchBlock(bytes(32), 1_010, BlockId(5, bytes(32)), transactions)
    span = decode_span(span_batch([block], 1_000, 5), 1, SpanRules(697, 1_000, 2))
    assert isinstance(span, SpanBatch), str(span)
    assert span.transactions == transactions
