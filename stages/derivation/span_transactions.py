"""The transactions of a span batch, put together again from its columns (derivation-rules 12, CV3 to CV8).

Every number of a payload is checked to stand in its shortest form, so that its bytes can be taken over as they are."""

from collections.abc import Callable
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
    offsets: list[int]
    signatures: bytes
    recipients: bytes
    nonces: list[int]
    gas_limits: list[int]
    creation_bits: int
    parity_bits: int
    protected_bits: int


class _Parts(NamedTuple):
    """What the columns give for one typed transaction, encoded."""

    chain_id: bytes
    nonce: bytes
    gas_limit: bytes
    recipient: bytes
    signature: bytes


def full_transactions(raw: RawTransactions, chain_id: int) -> tuple[bytes, ...]:
    """The canonical encodings; SpanTransactionError when one cannot be made."""
    unknown = set(raw.kinds) - KINDS
    if unknown:
        index = min(raw.kinds.index(kind) for kind in unknown)
        raise SpanTransactionError(index, f"unknown transaction type {raw.kinds[index]}")
    found: list[bytes] = []
    try:
        _restore(raw, chain_id, found)
    except RlpError as error:
        raise SpanTransactionError(len(found), str(error)) from None
    return tuple(found)


def _bit_text(bits: int, count: int) -> str:
    """The bits as characters, the lowest first."""
    return bin(bits)[:1:-1].ljust(count, "0")


def _restore(raw: RawTransactions, chain_id: int, found: list[bytes]) -> None:
    data, offsets, signatures, recipients = raw.data, raw.offsets, raw.signatures, raw.recipients
    creations, parities = _bit_text(raw.creation_bits, len(raw.kinds)), _bit_text(raw.parity_bits, len(raw.kinds))
    protected = iter(_bit_text(raw.protected_bits, len(raw.kinds)))
    encoded_chain = encode_int(chain_id)
    parity_codes = {"0": encode_int(0), "1": encode_int(1)}
    v_codes = {"00": encode_int(27), "01": encode_int(28)}
    v_codes |= {"10": encode_int(2 * chain_id + 35), "11": encode_int(2 * chain_id + 36)}
    recipient_at = 0
    for index, kind in enumerate(raw.kinds):
        if creations[index] == "1":
            recipient = EMPTY_STRING
        else:
            recipient = b"\x94" + recipients[recipient_at : recipient_at + 20]
            recipient_at += 20
        parity = parities[index]
        at, end = offsets[index], offsets[index + 1]
        if kind == POST_EXEC:
            found.append(data[at:end])
            continue
        lead = v_codes[next(protected) + parity] if kind == LEGACY else parity_codes[parity]
        if kind:
            at += 1
        elif not data[at]:
            raise RlpError("a type byte of 0")
        start = at + 1 if data[at] < 0xF8 else at + data[at] - 0xF6
        parts = _Parts(
            encoded_chain,
            encode_int(raw.nonces[index]),
            encode_int(raw.gas_limits[index]),
            recipient,
            lead + _signature(signatures, 64 * index),
        )
        found.append(_BUILDERS[kind](data, start, end, parts))


def _signature(signatures: bytes, at: int) -> bytes:
    """r and s as integers."""
    if signatures[at] and signatures[at + 32]:
        return b"\xa0" + signatures[at : at + 32] + b"\xa0" + signatures[at + 32 : at + 64]
    r, s = signatures[at : at + 32], signatures[at + 32 : at + 64]
    return encode_bytes(r.lstrip(b"\0")) + encode_bytes(s.lstrip(b"\0"))


# --- payloads by transaction type ----------------------------------------------------------------------------------


def _legacy(data: bytes, at: int, end: int, parts: _Parts) -> bytes:
    gas_price, call_data, after = _offsets(data, at, end, 2)
    _expect_end(after, end)
    value = data[at:gas_price]
    price, content = data[gas_price:call_data], data[call_data:end]
    return wrap_list(parts.nonce + price + parts.gas_limit + parts.recipient + value + content + parts.signature)


def _with_access_list(data: bytes, at: int, end: int, parts: _Parts) -> bytes:
    gas_price, call_data, after = _offsets(data, at, end, 2)
    _expect_end(_after_access_list(data, after, end), end)
    return b"\x01" + _typed(data, at, gas_price, call_data, end, parts)


def _dynamic_fee(data: bytes, at: int, end: int, parts: _Parts) -> bytes:
    tip, _, call_data, after = _offsets(data, at, end, 3)
    _expect_end(_after_access_list(data, after, end), end)
    return b"\x02" + _typed(data, at, tip, call_data, end, parts)


def _set_code(data: bytes, at: int, end: int, parts: _Parts) -> bytes:
    if parts.recipient == EMPTY_STRING:
        raise RlpError("no recipient")
    tip, fee_cap, call_data, after = _offsets(data, at, end, 3)
    if max(tip - at, fee_cap - tip, call_data - fee_cap) > 33:
        raise RlpError("a number of more than 256 bits")
    after = _after_access_list(data, after, end)
    _expect_end(_after_authorizations(data, after, end), end)
    return b"\x04" + _typed(data, at, tip, call_data, end, parts)


_BUILDERS: dict[int, Callable[[bytes, int, int, _Parts], bytes]] = {
    LEGACY: _legacy,
    ACCESS_LIST: _with_access_list,
    DYNAMIC_FEE: _dynamic_fee,
    SET_CODE: _set_code,
}


def _typed(data: bytes, value: int, fees: int, call_data: int, end: int, parts: _Parts) -> bytes:
    """The list of a typed transaction: the payload's value goes behind the recipient."""
    return wrap_list(
        parts.chain_id
        + parts.nonce
        + data[fees:call_data]
        + parts.gas_limit
        + parts.recipient
        + data[value:fees]
        + data[call_data:end]
        + parts.signature
    )


# --- strict reading of fields --------------------------------------------------------------------------------------


def _expect_end(at: int, end: int) -> None:
    if at != end:
        raise RlpError("too many fields")


def _offsets(data: bytes, at: int, end: int, numbers: int) -> list[int]:
    """Where the second and later of `numbers` integers start, then the byte string behind them, then what follows."""
    found: list[int] = []
    for _ in range(numbers):
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
