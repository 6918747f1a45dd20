"""The transactions of a span batch, restored from its columns [CV3 to CV8].

Every integer of a payload is checked to be in its shortest form, so that its bytes can be copied as they are."""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from rollup_node.stages.protocol.rlp import EMPTY_STRING, RlpError, encode_bytes, encode_int, header, list_header
from rollup_node.stages.protocol.transactions import ACCESS_LIST, DYNAMIC_FEE, LEGACY, POST_EXEC, SET_CODE

KINDS = frozenset((LEGACY, ACCESS_LIST, DYNAMIC_FEE, SET_CODE, POST_EXEC))
_TYPE_BYTES = {LEGACY: b"", ACCESS_LIST: b"\x01", DYNAMIC_FEE: b"\x02", SET_CODE: b"\x04"}
_RECIPIENT, _SIGNATURE = Struct("20s"), Struct("32s32s")
_POST_EXEC_COLUMNS = ("1", "0", bytes(32), bytes(32), 0, 0)
"""What a post-exec transaction has in the columns: creation bit, parity bit, r, s, nonce and gas limit [CV6]."""


class SpanTransactionError(ValueError):
    """Transaction number `index` cannot be restored, which drops the batch [BE6]."""

    def __init__(self, index: int, error: str) -> None:
        super().__init__(error)
        self.index = index


class RawTransactions(NamedTuple):
    """The columns.

    Payload i is `data[offsets[i]:offsets[i + 1]]` with its type byte if there is one. Bit i of a bit list is that of
    transaction i, of `protected_bits` that of legacy transaction i. Signatures have 64 bytes, recipients 20."""

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


def restore_transactions(raw: RawTransactions, chain_id: int) -> Iterator[bytes]:
    """Yield canonical encodings. Raises SpanTransactionError at a bad one, or at once for an unknown type."""
    _check_types(raw.kinds)
    data, count = raw.data, len(raw.kinds)
    chain = encode_int(chain_id)
    leads = {"0": encode_int(0), "1": encode_int(1), "00": encode_int(27), "01": encode_int(28)}
    leads |= {"10": encode_int(2 * chain_id + 35), "11": encode_int(2 * chain_id + 36)}
    protected = iter(_bit_text(raw.protected_bits, count))
    bits = _bit_text(raw.creation_bits, count), _bit_text(raw.parity_bits, count)
    recipients, signatures = _RECIPIENT.iter_unpack(raw.recipients), _SIGNATURE.iter_unpack(raw.signatures)
    ends = iter(raw.offsets)
    at = end = next(ends)
    columns = zip(raw.kinds, ends, raw.nonces, raw.gas_limits, *bits, signatures, strict=False)
    try:
        for kind, stop, nonce, gas_limit, created, parity, (r, s) in columns:
            at, end = end, stop
            recipient = EMPTY_STRING if created == "1" else b"\x94" + next(recipients)[0]
            if kind == POST_EXEC:
                if (created, parity, r, s, nonce, gas_limit) != _POST_EXEC_COLUMNS:
                    raise RlpError(f"a post-exec transaction {_filled(created, parity, r, s, nonce, gas_limit)}")
                yield data[at:end]
                continue
            value, fees, call_data = _fields(data, at, end, kind)
            if kind == SET_CODE and created == "1":
                raise RlpError("no recipient")
            before = chain + encode_int(nonce) if kind else encode_int(nonce)
            between = encode_int(gas_limit) + recipient
            lead = leads[parity if kind else next(protected) + parity]
            after = b"\xa0".join((lead, r, s)) if r[0] and s[0] else lead + _shortest(r) + _shortest(s)
            head = _TYPE_BYTES[kind] + list_header(end - value + len(before) + len(between) + len(after))
            parts = head, before, data[fees:call_data], between, data[value:fees], data[call_data:end], after
            yield b"".join(parts)
    except RlpError as error:
        raise SpanTransactionError(raw.offsets.index(at), str(error)) from None


def _filled(*columns: object) -> str:
    """Which of its columns a post-exec transaction fills, for a reason."""
    names = ("recipient", "y parity", "r", "s", "nonce", "gas limit")
    pairs = zip(names, columns, _POST_EXEC_COLUMNS, strict=True)
    return "with " + ", ".join(name for name, value, empty in pairs if value != empty)


def _check_types(kinds: bytes) -> None:
    """Types are checked before any content is parsed [CV3]."""
    unknown = set(kinds) - KINDS
    if unknown:
        index = min(kinds.index(kind) for kind in unknown)
        raise SpanTransactionError(index, f"unknown transaction type {kinds[index]}")


def _bit_text(bits: int, count: int) -> str:
    """Return the bits as characters `0` and `1`, the lowest first."""
    return bin(bits)[:1:-1].ljust(count, "0")


def _shortest(word: bytes) -> bytes:
    """Return the RLP encoding of a 32-byte word as an integer."""
    return encode_bytes(word.lstrip(b"\0"))


def _fields(data: bytes, at: int, end: int, kind: int) -> tuple[int, int, int]:
    """Return the offsets at which value, fees and call data of a payload start.

    Raises RlpError unless every field is valid and nothing follows [CV4, CV4a, CV4b]."""
    if kind:
        at += 1
    first = data[at]
    if first < 0xC0:
        raise RlpError("a type byte of 0")
    value = at + (1 if first < 0xF8 else first - 0xF6)
    fees = _after_number(data, value, end)
    call_data = _after_number(data, fees, end)
    if kind >= DYNAMIC_FEE:
        call_data = _after_number(data, call_data, end)
    at = _after_call_data(data, call_data, end)
    if kind:
        at = at + 1 if at < end and data[at] == 0xC0 else _after_access_list(data, at, end)
        if kind == SET_CODE:
            for start in value, fees, _after_number(data, fees, end):
                _after_number(data, start, end, 32)
            at = _after_authorizations(data, at, end)
    if at != end:
        raise RlpError("too many fields")
    return value, fees, call_data


def _after_call_data(data: bytes, at: int, end: int) -> int:
    first = data[at] if at < end else 0
    if first == 0x80:
        return at + 1
    if first == 0xB8 and data[at + 1] > 55:
        return at + 2 + data[at + 1]
    if first == 0xB9 and data[at + 1]:
        return at + 3 + (data[at + 1] << 8) + data[at + 2]
    is_list, _, stop = header(data, at, end)
    if is_list:
        raise RlpError("a list instead of call data")
    return stop


def _expect_end(at: int, end: int) -> None:
    if at != end:
        raise RlpError("too many fields")


def _after_number(data: bytes, at: int, end: int, size: int | None = None) -> int:
    """Return the offset behind an integer in its shortest form, of at most `size` bytes."""
    first = data[at] if at < end else 0
    if 0 < first <= 0x80:
        return at + 1
    if 0x81 < first <= 0xA0 and data[at + 1] and size is None:
        return at + first - 0x7F
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
        raise RlpError("a string instead of a list")
    return start, stop


def _after_access_list(data: bytes, at: int, end: int) -> int:
    """Check a list of [address, list of storage keys]."""
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
    """Check a list of [chain id, address, nonce, y parity, r, s]."""
    at, stop = _list(data, at, end)
    while at < stop:
        at, entry_end = _list(data, at, stop)
        at = _after_number(data, at, entry_end, 32)
        at = _after_sized(data, at, entry_end, 20)
        for size in (8, 1, 32, 32):
            at = _after_number(data, at, entry_end, size)
        _expect_end(at, entry_end)
    return stop
