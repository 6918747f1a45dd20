"""The transactions of a span batch, put together again from its columns (derivation-rules 12, CV3 to CV8).

Every number of a payload is checked to stand in its shortest form, so that its bytes can be taken over as they are."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rollup_node.stages.protocol.rlp import (
    EMPTY_LIST,
    EMPTY_STRING,
    RlpError,
    encode_bytes,
    encode_int,
    header,
    wrap_list,
)

LEGACY, ACCESS_LIST, DYNAMIC_FEE, SET_CODE, POST_EXEC = 0, 1, 2, 4, 0x7D
KINDS = frozenset((LEGACY, ACCESS_LIST, DYNAMIC_FEE, SET_CODE, POST_EXEC))


class SpanTransactionError(ValueError):
    """Transaction number `index` cannot be restored."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


class RawTransactions(NamedTuple):
    """The columns. Payload i is `data[offsets[i]:offsets[i + 1]]` with its type byte if there is one; bit i of each
    bit list is transaction i (of `protected_bits`: legacy transaction i)."""

    data: bytes
    kinds: bytes
    offsets: Sequence[int]
    signatures: bytes | memoryview
    recipients: bytes | memoryview
    nonces: Sequence[int]
    gas_limits: Sequence[int]
    creation_bits: int
    parity_bits: int
    protected_bits: int


def full_transactions(raw: RawTransactions, chain_id: int) -> tuple[bytes, ...]:
    """The canonical encodings; SpanTransactionError when one cannot be made."""
    return tuple(restored(raw, chain_id))


def restored(raw: RawTransactions, chain_id: int) -> Iterator[bytes]:
    """The canonical encodings one by one; SpanTransactionError at the one that cannot be made, or at once for one of
    unknown type."""
    unknown = set(raw.kinds) - KINDS
    if unknown:
        index = min(raw.kinds.index(kind) for kind in unknown)
        raise SpanTransactionError(index, f"unknown transaction type {raw.kinds[index]}")
    count = 0
    try:
        for transaction in _restored(raw, chain_id):
            yield transaction
            count += 1
    except RlpError as error:
        raise SpanTransactionError(count, str(error)) from None


def _bit_text(bits: int, count: int) -> str:
    """The bits as characters, the lowest first."""
    return bin(bits)[:1:-1].ljust(count, "0")


def _restored(raw: RawTransactions, chain_id: int) -> Iterator[bytes]:
    data, offsets, recipients = raw.data, raw.offsets, raw.recipients
    creations, parities = _bit_text(raw.creation_bits, len(raw.kinds)), _bit_text(raw.parity_bits, len(raw.kinds))
    protected = iter(_bit_text(raw.protected_bits, len(raw.kinds)))
    typed_head = encode_int(chain_id)
    leads = {"0": encode_int(0), "1": encode_int(1), "00": encode_int(27), "01": encode_int(28)}
    leads |= {"10": encode_int(2 * chain_id + 35), "11": encode_int(2 * chain_id + 36)}
    recipient_at = 0
    for index, kind in enumerate(raw.kinds):
        recipient = EMPTY_STRING
        if creations[index] == "0":
            recipient = b"\x94" + recipients[recipient_at : recipient_at + 20]
            recipient_at += 20
        at, end = offsets[index], offsets[index + 1]
        if kind == POST_EXEC:
            yield data[at:end]
            continue
        lead, head = parities[index], encode_int(raw.nonces[index])
        if kind:
            at += 1
            head = typed_head + head
        else:
            lead = next(protected) + lead
        middle = encode_int(raw.gas_limits[index]) + recipient
        body = _joined(kind, data, at, end, head, middle, leads[lead] + _signature(raw.signatures, 64 * index))
        yield _TYPE_BYTES[kind] + wrap_list(body)


_TYPE_BYTES = {LEGACY: b"", ACCESS_LIST: b"\x01", DYNAMIC_FEE: b"\x02", SET_CODE: b"\x04"}


def _signature(signatures: bytes | memoryview, at: int) -> bytes:
    """r and s as integers."""
    if signatures[at] and signatures[at + 32]:
        return b"\xa0" + signatures[at : at + 32] + b"\xa0" + signatures[at + 32 : at + 64]
    r, s = bytes(signatures[at : at + 32]), bytes(signatures[at + 32 : at + 64])
    return encode_bytes(r.lstrip(b"\0")) + encode_bytes(s.lstrip(b"\0"))


def _joined(kind: int, data: bytes, at: int, end: int, head: bytes, middle: bytes, tail: bytes) -> bytes:
    """The fields of a transaction: `head` (chain id, nonce), fees, `middle` (gas limit, recipient), value, call data
    and lists, `tail` (signature). The payload has them in the order value, fees, call data, lists."""
    first = data[at]
    if first < 0xC0:
        raise RlpError("a type byte of 0")
    at += 1 if first < 0xF8 else first - 0xF6
    fees, *_, call_data, after = offsets = _offsets(data, at, end, 2 if kind < DYNAMIC_FEE else 3)
    if kind != LEGACY:
        after = _after_access_list(data, after, end)
    if kind == SET_CODE:
        if middle[-1:] == EMPTY_STRING and middle[-21:-20] != b"\x94":
            raise RlpError("no recipient")
        if any(stop - start > 33 for start, stop in zip((at, *offsets), offsets[:-1], strict=False)):
            raise RlpError("a number of more than 256 bits")
        after = _after_authorizations(data, after, end)
    _expect_end(after, end)
    return head + data[fees:call_data] + middle + data[at:fees] + data[call_data:end] + tail


# --- strict reading of fields --------------------------------------------------------------------------------------


def _expect_end(at: int, end: int) -> None:
    if at != end:
        raise RlpError("too many fields")


def _offsets(data: bytes, at: int, end: int, numbers: int) -> list[int]:
    """Where the second and later of `numbers` integers start, then the byte string behind them, then what follows."""
    found: list[int] = []
    for _ in range(numbers):
        if at >= end:
            raise RlpError("no bytes where an item must be")
        first = data[at]
        if 0x80 < first < 0xB8:
            lead = data[at + 1]
            if not lead or (first == 0x81 and lead < 0x80):
                raise RlpError("not a number in its shortest form")
            at += first - 0x7F
        else:
            at = _after_number(data, at, end)
        found.append(at)
    is_list, _, at = header(data, at, end)
    if is_list:
        raise RlpError("a list where call data must be")
    found.append(at)
    return found


def _after_number(data: bytes, at: int, end: int, size: int | None = None) -> int:
    """Where the item behind an integer (of at most `size` bytes) starts."""
    if at < end and 0 < data[at] <= 0x80:
        return at + 1
    is_list, start, stop = header(data, at, end)
    if is_list or data[start] == 0:
        raise RlpError("not a number in its shortest form")
    if size is not None and stop - start > size:
        raise RlpError(f"a number of more than {size} bytes")
    return stop


def _after_sized(data: bytes, at: int, end: int, size: int) -> int:
    is_list, start, stop = header(data, at, end)
    if is_list or stop - start != size:
        raise RlpError(f"expected {size} bytes")
    return stop


def _list(data: bytes, at: int, end: int) -> tuple[int, int]:
    is_list, start, stop = header(data, at, end)
    if not is_list:
        raise RlpError("a string where a list must be")
    return start, stop


def _after_access_list(data: bytes, at: int, end: int) -> int:
    """Checks a list of [address, list of storage keys]."""
    if data[at : at + 1] == EMPTY_LIST:
        return at + 1
    at, stop = _list(data, at, end)
    while at < stop:
        at, entry_end = _list(data, at, stop)
        at = _after_sized(data, at, entry_end, 20)
        at, keys_end = _list(data, at, entry_end)
        while at < keys_end:
            at = _after_sized(data, at, keys_end, 32)
        _expect_end(keys_end, entry_end)
    return stop


def _after_authorizations(data: bytes, at: int, end: int) -> int:
    """Checks a list of [chain id, address, nonce, y parity, r, s]."""
    at, stop = _list(data, at, end)
    while at < stop:
        at, entry_end = _list(data, at, stop)
        at = _after_number(data, at, entry_end, 32)
        at = _after_sized(data, at, entry_end, 20)
        for size in (8, 1, 32, 32):
            at = _after_number(data, at, entry_end, size)
        _expect_end(at, entry_end)
    return stop
