"""Span batches encoded field by field, so that a test can replace any field [SP1 to SP18], and whole transactions
encoded with another RLP library."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import rlp

from tests.conformance.kit.chain import L2_CHAIN_ID

R, S, TO = b"\x11" * 32, b"\x22" * 32, b"\x44" * 20


@dataclass(frozen=True)
class Tx:
    """A transaction in the columns of a span batch. `content` is the list that follows the type byte."""

    kind: int = 0
    content: Sequence[object] = (b"\x05", b"\x09", b"\xda\x7a")
    nonce: int = 7
    gas: int = 21_000
    to: bytes | None = TO
    parity: int = 0
    protected: int = 0
    r: bytes = R
    s: bytes = S
    raw: bytes | None = None

    @property
    def data(self) -> bytes:
        """Type byte and content, or `raw` in their place."""
        if self.raw is not None:
            return self.raw
        return (bytes((self.kind,)) if self.kind else b"") + bytes(rlp.encode(self.content))

    def full(self, v: int | None = None) -> bytes:
        """Return the transaction as it goes to the engine; `v` is a legacy transaction's."""
        value, *middle = self.content
        fees, rest = (middle[:1], middle[1:]) if self.kind < 2 else (middle[:2], middle[2:])
        chain = [] if v is not None else [integer(L2_CHAIN_ID)]
        items = [*chain, integer(self.nonce), *fees, integer(self.gas), self.to or b"", value, *rest]
        items += [integer(self.parity if v is None else v), self.r.lstrip(b"\0"), self.s.lstrip(b"\0")]
        return (bytes((self.kind,)) if self.kind else b"") + bytes(rlp.encode(items))


def post_exec(**columns: Any) -> Tx:
    """Return a post-exec transaction whose columns are empty but for those that are given."""
    empty: dict[str, Any] = {"to": None, "r": bytes(32), "s": bytes(32), "nonce": 0, "gas": 0}
    return Tx(0x7D, (b"\x01", b"\x05", []), **(empty | columns))


def integer(value: int) -> bytes:
    """Return a number in its shortest form."""
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def uvarint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    groups = [value >> shift & 0x7F for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def bit_list(bits: Sequence[int]) -> bytes:
    """Bit i is the i-th lowest of a big-endian number."""
    return sum(bit << place for place, bit in enumerate(bits)).to_bytes((len(bits) + 7) // 8, "big")


@dataclass(frozen=True)
class SpanFields:
    """The encoded fields in their order."""

    rel_timestamp: bytes
    l1_origin_num: bytes
    parent_check: bytes
    l1_origin_check: bytes
    block_count: bytes
    origin_bits: bytes
    tx_counts: bytes
    creation_bits: bytes
    parity_bits: bytes
    signatures: bytes
    tos: bytes
    datas: bytes
    nonces: bytes
    gas_limits: bytes
    protected_bits: bytes

    def encode(self) -> bytes:
        """Type byte and fields."""
        return b"\1" + b"".join(getattr(self, field.name) for field in fields(self))

    def but(self, **changes: bytes) -> "SpanFields":
        """Return a copy with other bytes in some fields."""
        return replace(self, **changes)

    def place_of(self, name: str) -> tuple[int, int]:
        """Where a field begins and ends in the encoded batch."""
        at = 1
        for field in fields(self):
            end = at + len(getattr(self, field.name))
            if field.name == name:
                return at, end
            at = end
        raise KeyError(name)


def span_fields(
    blocks: Sequence[Sequence[Tx]],
    bits: Sequence[int] | None = None,
    *,
    relative_time: int = 2,
    origin: int = 100,
    parent_check: bytes = b"\x0a" * 20,
    origin_check: bytes = b"\x0b" * 20,
) -> SpanFields:
    """Return a span of blocks with these transactions; `bits` are the origin bits."""
    txs = [tx for block in blocks for tx in block]
    return SpanFields(
        rel_timestamp=uvarint(relative_time),
        l1_origin_num=uvarint(origin),
        parent_check=parent_check,
        l1_origin_check=origin_check,
        block_count=uvarint(len(blocks)),
        origin_bits=bit_list([0] * len(blocks) if bits is None else bits),
        tx_counts=b"".join(uvarint(len(block)) for block in blocks),
        creation_bits=bit_list([int(tx.to is None) for tx in txs]),
        parity_bits=bit_list([tx.parity for tx in txs]),
        signatures=b"".join(tx.r + tx.s for tx in txs),
        tos=b"".join(tx.to or b"" for tx in txs),
        datas=b"".join(tx.data for tx in txs),
        nonces=b"".join(uvarint(tx.nonce) for tx in txs),
        gas_limits=b"".join(uvarint(tx.gas) for tx in txs),
        protected_bits=bit_list([tx.protected for tx in txs if tx.kind == 0]),
    )
