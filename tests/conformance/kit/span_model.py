"""A reference decoder of span batches, written by the wording of the rules and with another RLP library [SP1 to SP18,
CV1 to CV10]."""

from dataclasses import dataclass

import rlp
from rlp.exceptions import DecodingError

from tests.conformance.kit.chain import L2_CHAIN_ID
from tests.conformance.kit.span_fields import integer

LIMIT = 10_000_000
U64 = 1 << 64


class MalformedModelSpan(Exception):
    """The fields cannot be read."""


class UnrestorableTransaction(Exception):
    """The fields can be read, a transaction cannot be restored."""


@dataclass(frozen=True)
class SpanModel:
    """A span batch: the relative time, epoch and transactions of each block."""

    blocks: list[tuple[int, int, tuple[bytes, ...]]]
    parent_check: bytes
    origin_check: bytes


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        if count > len(self.data):
            raise MalformedModelSpan("cut off")
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def number(self) -> int:
        value = 0
        for place in range(10):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if value >= U64:
                    break
                return value
        raise MalformedModelSpan("number")

    def bits(self, count: int) -> list[int]:
        value = int.from_bytes(self.take((count + 7) // 8), "big")
        if value >> count:
            raise MalformedModelSpan("bits")
        return [value >> place & 1 for place in range(count)]

    def content(self) -> tuple[int, bool, bytes]:
        """Type, whether a type byte stood there, and the encoded list."""
        kind, is_typed = 0, False
        (first,) = self.take(1)
        if first < 0x80:
            kind, is_typed = first, True
            (first,) = self.take(1)
        if first < 0xC0:
            raise MalformedModelSpan("no list")
        if first < 0xF8:
            return kind, is_typed, bytes((first,)) + self.take(first - 0xC0)
        digits = self.take(first - 0xF7)
        size = int.from_bytes(digits, "big")
        if digits[0] == 0 or size < 56 or size + 1 + len(digits) > LIMIT:
            raise MalformedModelSpan("length")
        return kind, is_typed, bytes((first,)) + digits + self.take(size)


def read(data: bytes, block_time: int) -> SpanModel:
    """Return the batch behind the type byte; MalformedModelSpan or UnrestorableTransaction otherwise."""
    source = _Bytes(data)
    relative, origin = source.number(), source.number()
    parent_check, origin_check = source.take(20), source.take(20)
    count = source.number()
    if not 0 < count <= LIMIT:
        raise MalformedModelSpan("blocks")
    origin_bits = source.bits(count)
    counts = [source.number() for _ in range(count)]
    if any(count > LIMIT for count in counts) or sum(counts) > LIMIT:
        raise MalformedModelSpan("transactions")
    txs = _transactions(source, sum(counts))
    l1_window = [origin]
    for bit in origin_bits[:0:-1]:
        l1_window.insert(0, (l1_window[0] - bit) % U64)
    blocks = []
    for place, item in enumerate(counts):
        blocks.append(((relative + place * block_time) % U64, l1_window[place], tuple(txs[:item])))
        del txs[:item]
    return SpanModel(blocks, parent_check, origin_check)


def _transactions(source: _Bytes, total: int) -> list[bytes]:
    creations, parities = source.bits(total), source.bits(total)
    signatures = [(source.take(32), source.take(32)) for _ in range(total)]
    recipients = [source.take(20) for _ in range(total - sum(creations))]
    contents = [source.content() for _ in range(total)]
    nonces = [source.number() for _ in range(total)]
    gas_limits = [source.number() for _ in range(total)]
    protected = source.bits(sum(kind == 0 for kind, _, _ in contents))
    transactions = []
    for place, (kind, is_typed, content) in enumerate(contents):
        to = b"" if creations[place] else recipients.pop(0)
        parity = parities[place]
        v = 27 + parity
        if kind == 0 and protected.pop(0):
            v = 2 * L2_CHAIN_ID + 35 + parity
        if kind == 0x7D:
            if to or parity or any(map(any, signatures[place])) or nonces[place] or gas_limits[place]:
                raise UnrestorableTransaction("columns of a post-exec transaction")
            transactions.append(b"\x7d" + content)
            continue
        if kind not in (0, 1, 2, 4) or (kind == 0 and is_typed) or (kind == 4 and not to):
            raise UnrestorableTransaction(kind)
        value, *fees, data, lists = _fields(kind, content)
        r, s = (signature.lstrip(b"\0") for signature in signatures[place])
        head = [integer(nonces[place])] if kind == 0 else [integer(L2_CHAIN_ID), integer(nonces[place])]
        tail = [integer(v if kind == 0 else parity), r, s]
        items = [*head, *fees, integer(gas_limits[place]), to, value, data, *lists, *tail]
        transactions.append((bytes((kind,)) if kind else b"") + bytes(rlp.encode(items)))
    return transactions


def _fields(kind: int, content: bytes) -> list:  # type: ignore[type-arg]
    """Value, fees, call data and the list of lists, each checked."""
    try:
        items = rlp.decode(content)
    except DecodingError as error:
        raise UnrestorableTransaction(str(error)) from None
    numbers = 2 if kind < 2 else 3
    if len(items) != numbers + 1 + {0: 0, 1: 1, 2: 1, 4: 2}[kind]:
        raise UnrestorableTransaction("fields")
    for item in items[:numbers]:
        _number(item, 32 if kind == 4 else None)
    if not isinstance(items[numbers], bytes):
        raise UnrestorableTransaction("call data")
    lists = items[numbers + 1 :]
    for entry in _list(lists[0] if lists else []):
        address, keys = _list(entry, 2)
        for item, size in ((address, 20), *((key, 32) for key in _list(keys))):
            if not isinstance(item, bytes) or len(item) != size:
                raise UnrestorableTransaction("access list")
    for entry in _list(lists[1] if len(lists) > 1 else []):
        chain, address, nonce, parity, r, s = _list(entry, 6)
        for item, size in ((chain, 32), (nonce, 8), (parity, 1), (r, 32), (s, 32)):
            _number(item, size)
        if not isinstance(address, bytes) or len(address) != 20:
            raise UnrestorableTransaction("authorization")
    return [*items[:numbers], items[numbers], lists]


def _number(item: object, size: int | None) -> None:
    if not isinstance(item, bytes) or item[:1] == b"\0" or (size is not None and len(item) > size):
        raise UnrestorableTransaction("number")


def _list(item: object, size: int | None = None) -> list:  # type: ignore[type-arg]
    if not isinstance(item, list) or (size is not None and len(item) != size):
        raise UnrestorableTransaction("list")
    return item
