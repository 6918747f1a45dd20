"""derivation-rules 12 by its conformance ids: transactions put together again, judged by what an encoder that is not
ours to change made of them."""

from pathlib import Path

import pytest

from rollup_node.stages.derivation.codec.span_transactions import (
    RawTransactions,
    SpanTransactionError,
    full_transactions,
)
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.rlp import encode_bytes, encode_int, wrap_list

CHAIN_ID = 10
TO = b"t" * 20
R, S = b"\x11" * 32, b"\x22" * 32


def _raw(
    *payloads: bytes, parity: int = 0, created: int = 0, protected: int = 0, r: bytes = R, s: bytes = S
) -> RawTransactions:
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
        (r + s) * count,
        TO * count,
        [7] * count,
        [21_000] * count,
        created,
        parity,
        protected,
    )


def _one(*payloads: bytes, **columns: object) -> bytes:
    return full_transactions(_raw(*payloads, **columns), CHAIN_ID)[-1]  # type: ignore[arg-type]


def _payload(kind: int, *fields: bytes) -> bytes:
    return (bytes((kind,)) if kind else b"") + wrap_list(b"".join(fields))


def _legacy(value: bytes = b"\x01", price: bytes = b"\x02", data: bytes = b"\x80", *more: bytes) -> bytes:
    return _payload(0, value, price, data, *more)


DYNAMIC = _payload(2, b"\x01", b"\x02", b"\x03", b"\x80", b"\xc0")
AUTHORIZATION = wrap_list(b"\x0a\x94" + TO + b"\x80\x01" + encode_bytes(R) + encode_bytes(S))
SET_CODE = _payload(4, b"\x01", b"\x02", b"\x03", b"\x80", b"\xc0", wrap_list(AUTHORIZATION))


def _fields(encoded: bytes) -> list[rlp.Item]:
    found = rlp.decode(encoded[1:] if encoded[0] < 0x80 else encoded)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("parity", "protected", "v"),
    [
        pytest.param(0, 0, 27, id="unprotected"),
        pytest.param(1, 0, 28, id="spantx_legacy_unprotected"),
        pytest.param(0, 1, 55, id="spantx_legacy_protected"),
        pytest.param(1, 1, 56, id="protected, odd"),
    ],
)
def test_legacy_v(parity: int, protected: int, v: int) -> None:
    fields = _fields(_one(_legacy(), parity=parity, protected=protected))
    assert fields == [b"\x07", b"\x02", encode_int(21_000)[1:], TO, b"\x01", b"", bytes((v,)), R, S]


def test_spantx_protected_index() -> None:
    found = full_transactions(_raw(DYNAMIC, _legacy(), DYNAMIC, _legacy(), protected=0b10), CHAIN_ID)
    assert [_fields(found[at])[6] for at in (1, 3)] == [bytes((27,)), bytes((55,))]


def test_spantx_type1_chainid() -> None:
    fields = _fields(_one(_payload(1, b"\x01", b"\x02", b"\x80", b"\xc0"), parity=1))
    assert fields == [b"\x0a", b"\x07", b"\x02", encode_int(21_000)[1:], TO, b"\x01", b"", [], b"\x01", R, S]


def test_type_2() -> None:
    fields = _fields(_one(DYNAMIC))
    assert fields == [b"\x0a", b"\x07", b"\x02", b"\x03", encode_int(21_000)[1:], TO, b"\x01", b"", [], b"", R, S]


def test_type_4() -> None:
    fields = _fields(_one(SET_CODE))
    assert fields[9] == [[b"\x0a", TO, b"", b"\x01", R, S]]


def test_spantx_create_tx() -> None:
    assert _fields(_one(DYNAMIC, created=1))[5] == b""
    assert _fields(_one(_legacy(), created=1))[3] == b""


def test_spantx_r_zero() -> None:
    assert _fields(_one(DYNAMIC, r=bytes(32)))[-2:] == [b"", S]


def test_spantx_r_leading_zero() -> None:
    assert _fields(_one(DYNAMIC, r=b"\0" + R[1:], s=b"\0\0" + S[2:]))[-2:] == [R[1:], S[2:]]


def test_spantx_value_33_bytes() -> None:
    assert _fields(_one(_legacy(value=b"\xa1" + b"\x01" * 33)))[4] == b"\x01" * 33
    assert _fields(_one(_legacy(value=b"\xb8\x38" + b"\x01" * 56)))[4] == b"\x01" * 56


def test_spantx_setcode_empty_auth() -> None:
    assert _fields(_one(_payload(4, b"\x01", b"\x02", b"\x03", b"\x80", b"\xc0", b"\xc0")))[9] == []


def test_access_lists_are_taken_over() -> None:
    entry = wrap_list(b"\x94" + TO + wrap_list(encode_bytes(R) + encode_bytes(S)))
    fields = _fields(_one(_payload(2, b"\x01", b"\x02", b"\x03", b"\x80", wrap_list(entry))))
    assert fields[8] == [[TO, [R, S]]]


def test_spantx_postexec_slots() -> None:
    """Its list is kept as it is, and it takes a recipient."""
    payload = b"\x7d\xc3\x01\xc1\x05"
    found = full_transactions(_raw(payload, DYNAMIC)._replace(recipients=b"x" * 20 + TO), CHAIN_ID)
    assert found[0] == payload
    assert _fields(found[1])[5] == TO


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(_legacy(value=b"\x82\x00\x01"), id="spantx_value_leading_zero"),
        pytest.param(_legacy(value=b"\x00"), id="zero as a byte"),
        pytest.param(_legacy(value=b"\x81\x01"), id="one byte in long form"),
        pytest.param(_legacy(value=b"\xc0"), id="a list as a number"),
        pytest.param(_legacy(data=b"\xc0"), id="a list as call data"),
        pytest.param(_legacy(data=b"\x81\x05"), id="call data not canonical"),
        pytest.param(_legacy(b"\x01", b"\x02", b"\x80", b"\x80"), id="spantx_four_fields_legacy"),
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
            _payload(1, b"\x01", b"\x02", b"\x80", wrap_list(wrap_list(b"\x94" + TO + wrap_list(b"\x9f" + bytes(31))))),
            id="spantx_access_key_31",
        ),
        pytest.param(
            _payload(1, b"\x01", b"\x02", b"\x80", wrap_list(wrap_list(b"\x93" + TO[1:] + b"\xc0"))), id="address of 19"
        ),
        pytest.param(
            _payload(1, b"\x01", b"\x02", b"\x80", wrap_list(wrap_list(b"\x94" + TO + b"\xc0\x80"))),
            id="three in entry",
        ),
        pytest.param(
            _payload(4, b"\xa1" + b"\x01" * 33, b"\x02", b"\x03", b"\x80", b"\xc0", b"\xc0"),
            id="spantx_setcode_value_33",
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
def test_refused(payload: bytes) -> None:
    with pytest.raises(SpanTransactionError) as caught:
        full_transactions(_raw(DYNAMIC, payload), CHAIN_ID)
    assert caught.value.index == 1
    assert str(caught.value)


def test_spantx_setcode_create() -> None:
    with pytest.raises(SpanTransactionError):
        _one(SET_CODE, created=1)


def test_spantx_nonce_max() -> None:
    raw = _raw(DYNAMIC)._replace(nonces=[2**64 - 1])
    assert _fields(full_transactions(raw, CHAIN_ID)[0])[1] == b"\xff" * 8


@pytest.mark.parametrize("name", ["fulltxacc", "fulltxdyn", "fulltxlegacy", "fulltxunprotected"])
def test_vectors_come_back(shared_data: Path, made: object, name: str) -> None:
    from rollup_node.stages.derivation.codec.batches import SpanBatch
    from rollup_node.stages.derivation.codec.span_batch import SpanRules, decode_span

    lines = (shared_data / "span_batch_vectors" / f"{name}.txt").read_text().split()
    transactions = tuple(bytes.fromhex(line[2:]) for line in lines)
    block = made.BatchBlock(bytes(32), 1_010, made.BlockId(5, bytes(32)), transactions)  # type: ignore[attr-defined]
    span = decode_span(made.span_batch([block], 1_000, 5), 1, SpanRules(697, 1_000, 2))  # type: ignore[attr-defined]
    assert isinstance(span, SpanBatch), str(span)
    assert span.transactions == transactions
