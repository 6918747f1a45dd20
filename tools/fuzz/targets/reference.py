"""A reference decoder of channel bodies, written by the wording of the rules and apart from the node's decoder.

It decompresses the whole body at once, and reads RLP and batches by recursion, without bounds on memory [RD1 to RD6,
ST1 to ST6, BE1 to BE7, SB1 to SB5, SP1 to SP18]."""

import zlib
from typing import Any, NamedTuple

import brotli

LIMIT = 10_000_000
U64 = 1 << 64


class Malformed(Exception):
    """The channel ends here."""


class Unrestorable(Exception):
    """Only this batch is dropped."""


class ReferenceSingular(NamedTuple):
    """A singular batch."""

    parent_hash: bytes
    epoch_number: int
    epoch_hash: bytes
    timestamp: int
    transactions: tuple[bytes, ...]


class ReferenceSpan(NamedTuple):
    """A span batch: time, epoch and transactions of each block."""

    blocks: tuple[tuple[int, int, tuple[bytes, ...]], ...]
    parent_check: bytes
    origin_check: bytes


ReferenceBatch = ReferenceSingular | ReferenceSpan | None
"""None is a batch that is dropped alone."""


def reference_batches(
    body: bytes, limit: int, chain_id: int, genesis_time: int, block_time: int
) -> list[ReferenceBatch]:
    """Return the batches of a body whose compression is whole.

    Malformed where it is not, as what counts of a damaged stream depends on the decompressor."""
    stream, result = _decompressed(body), []
    at = 0
    while at < len(stream):
        try:
            item, at = _string(stream, at)
            if at > limit:
                break
            result.append(reference_batch(item, chain_id, genesis_time, block_time))
        except Malformed:
            break
    return result


def _decompressed(body: bytes) -> bytes:
    try:
        if body[:1] == b"\x01":
            return bytes(brotli.decompress(body[1:]))
        reader = zlib.decompressobj()
        stream = reader.decompress(body)
        if not reader.eof:
            raise Malformed("cut off")
        return stream
    # brotli asserts where a damaged stream ends with output that it has not given out.
    except (zlib.error, brotli.error, AssertionError) as error:
        raise Malformed(str(error)) from None


# --- RLP -----------------------------------------------------------------------------------------------------------


def _head(data: bytes, at: int) -> tuple[bool, int, int]:
    """Whether a list begins here, and where its content begins and ends."""
    if at >= len(data):
        raise Malformed("cut off")
    first = data[at]
    if first < 0x80:
        return False, at, at + 1
    base, is_list = (0x80, False) if first < 0xC0 else (0xC0, True)
    size, start = first - base, at + 1
    if size > 55:
        digits = data[start : start + size - 55]
        if len(digits) < size - 55 or digits[0] == 0 or int.from_bytes(digits, "big") < 56:
            raise Malformed("length")
        start, size = start + len(digits), int.from_bytes(digits, "big")
    if start + size > len(data) or (not is_list and size == 1 and data[start] < 0x80):
        raise Malformed("content")
    return is_list, start, start + size


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    is_list, start, end = _head(data, at)
    if is_list:
        raise Malformed("list")
    return data[start:end], end


def _item(data: bytes, at: int) -> tuple[Any, int]:
    is_list, start, end = _head(data, at)
    if not is_list:
        return data[start:end], end
    result = []
    while start < end:
        item, start = _item(data[:end], start)
        result.append(item)
    return result, end


def _encoded(item: Any) -> bytes:
    if isinstance(item, list):
        return _with_head(0xC0, b"".join(map(_encoded, item)))
    return bytes(item) if len(item) == 1 and item[0] < 0x80 else _with_head(0x80, item)


def _with_head(base: int, content: bytes) -> bytes:
    if len(content) < 56:
        return bytes((base + len(content),)) + content
    digits = _digits(len(content))
    return bytes((base + 55 + len(digits),)) + digits + content


def _digits(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


# --- batches -------------------------------------------------------------------------------------------------------


def reference_batch(item: bytes, chain_id: int, genesis_time: int, block_time: int) -> ReferenceBatch:
    """Return the batch of a channel's item. Malformed where the channel ends with it."""
    if item[:1] == b"\0":
        return _singular(item[1:])
    if item[:1] != b"\x01":
        raise Malformed("type")
    try:
        return _span(_Fields(item[1:]), chain_id, genesis_time, block_time)
    except Unrestorable:
        return None


def _singular(data: bytes) -> ReferenceSingular:
    fields, _ = _item(data, 0)
    if not isinstance(fields, list) or len(fields) != 5 or not isinstance(fields[4], list):
        raise Malformed("fields")
    parent, epoch, epoch_hash, time, transactions = fields
    for value, size in ((parent, 32), (epoch_hash, 32)):
        if not isinstance(value, bytes) or len(value) != size:
            raise Malformed("size")
    for value in (epoch, time):
        if not isinstance(value, bytes) or len(value) > 8 or value[:1] == b"\0":
            raise Malformed("number")
    if any(isinstance(transaction, list) for transaction in transactions):
        raise Malformed("transaction")
    numbers = int.from_bytes(epoch, "big"), int.from_bytes(time, "big")
    return ReferenceSingular(parent, numbers[0], epoch_hash, numbers[1], tuple(transactions))


class _Fields:
    """The fields of a span batch, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self, count: int) -> bytes:
        """So many bytes."""
        if count > len(self._data):
            raise Malformed("cut off")
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def number(self) -> int:
        """Return a number in base 128, of 64 bits, which need not be in its shortest form."""
        value = 0
        for place in range(10):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80 and value < U64:
                return value
            if byte < 0x80:
                break
        raise Malformed("number")

    def bits(self, count: int) -> list[int]:
        """Return a list of bits, of which the lowest is the first."""
        value = int.from_bytes(self.take((count + 7) // 8), "big")
        if value >> count:
            raise Malformed("bits")
        return [value >> place & 1 for place in range(count)]

    def transaction(self) -> tuple[int, bool, bytes]:
        """Return the type of a transaction, whether its byte is there, and the encoded list."""
        kind, is_typed = 0, False
        (first,) = self.take(1)
        if first < 0x80:
            kind, is_typed = first, True
            (first,) = self.take(1)
        if first < 0xC0:
            raise Malformed("no list")
        if first < 0xF8:
            return kind, is_typed, bytes((first,)) + self.take(first - 0xC0)
        digits = self.take(first - 0xF7)
        size = int.from_bytes(digits, "big")
        if digits[0] == 0 or size < 56 or size + 1 + len(digits) > LIMIT:
            raise Malformed("length")
        return kind, is_typed, bytes((first,)) + digits + self.take(size)


def _span(source: _Fields, chain_id: int, genesis_time: int, block_time: int) -> ReferenceSpan:
    relative, last_epoch = source.number(), source.number()
    parent_check, origin_check = source.take(20), source.take(20)
    count = source.number()
    if not 0 < count <= LIMIT:
        raise Malformed("blocks")
    origin_bits = source.bits(count)
    counts = [source.number() for _ in range(count)]
    if max(counts) > LIMIT or sum(counts) > LIMIT:
        raise Malformed("transactions")
    transactions = _transactions(source, sum(counts), chain_id)
    epochs = [last_epoch]
    for bit in origin_bits[:0:-1]:
        epochs.append((epochs[-1] - bit) % U64)
    blocks, at = [], 0
    for place, (item, epoch) in enumerate(zip(counts, reversed(epochs), strict=True)):
        time = (genesis_time + relative + place * block_time) % U64
        blocks.append((time, epoch, tuple(transactions[at : at + item])))
        at += item
    return ReferenceSpan(tuple(blocks), parent_check, origin_check)


def _transactions(source: _Fields, total: int, chain_id: int) -> list[bytes]:
    creations, parities = source.bits(total), source.bits(total)
    signatures = [(source.take(32), source.take(32)) for _ in range(total)]
    recipients = iter([source.take(20) for _ in range(total - sum(creations))])
    contents = [source.transaction() for _ in range(total)]
    nonces = [source.number() for _ in range(total)]
    gas_limits = [source.number() for _ in range(total)]
    protected = iter(source.bits(sum(kind == 0 for kind, _, _ in contents)))
    transactions = []
    for place, (kind, is_typed, content) in enumerate(contents):
        to = b"" if creations[place] else next(recipients)
        v = 27 + parities[place]
        if kind == 0 and next(protected):
            v = 2 * chain_id + 35 + parities[place]
        if kind == 0x7D:
            if to or parities[place] or any(b"".join(signatures[place])) or nonces[place] or gas_limits[place]:
                raise Unrestorable("columns of a post-exec transaction")
            transactions.append(b"\x7d" + content)
            continue
        if kind not in (0, 1, 2, 4) or (kind == 0 and is_typed) or (kind == 4 and not to):
            raise Unrestorable("type")
        value, fees, data, lists = _content(kind, content)
        r, s = (signature.lstrip(b"\0") for signature in signatures[place])
        head = [_digits(nonces[place])] if kind == 0 else [_digits(chain_id), _digits(nonces[place])]
        tail = [_digits(v if kind == 0 else parities[place]), r, s]
        items = [*head, *fees, _digits(gas_limits[place]), to, value, data, *lists, *tail]
        transactions.append((bytes((kind,)) if kind else b"") + _encoded(items))
    return transactions


def _content(kind: int, encoded: bytes) -> tuple[bytes, list[bytes], bytes, list[Any]]:
    """Value, fees, call data, and the lists behind them, each checked."""
    try:
        items, _ = _item(encoded, 0)
    except Malformed as error:
        raise Unrestorable(str(error)) from None
    numbers = 2 if kind < 2 else 3
    if len(items) != numbers + 1 + {0: 0, 1: 1, 2: 1, 4: 2}[kind]:
        raise Unrestorable("fields")
    for item in items[:numbers]:
        _check_number(item, 32 if kind == 4 else None)
    if not isinstance(items[numbers], bytes):
        raise Unrestorable("call data")
    lists = items[numbers + 1 :]
    for entry in _list(lists[0] if lists else []):
        address, keys = _list(entry, 2)
        for item, size in ((address, 20), *((key, 32) for key in _list(keys))):
            if not isinstance(item, bytes) or len(item) != size:
                raise Unrestorable("access list")
    for entry in _list(lists[1] if len(lists) > 1 else []):
        chain, address, nonce, parity, r, s = _list(entry, 6)
        for item, size in ((chain, 32), (nonce, 8), (parity, 1), (r, 32), (s, 32)):
            _check_number(item, size)
        if not isinstance(address, bytes) or len(address) != 20:
            raise Unrestorable("authorization")
    return items[0], items[1:numbers], items[numbers], lists


def _check_number(item: object, size: int | None) -> None:
    if not isinstance(item, bytes) or item[:1] == b"\0" or (size is not None and len(item) > size):
        raise Unrestorable("number")


def _list(item: object, size: int | None = None) -> list[Any]:
    if not isinstance(item, list) or (size is not None and len(item) != size):
        raise Unrestorable("list")
    return item
