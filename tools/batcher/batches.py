"""Encodes L2 blocks as singular batches [SB1 to SB5] and span batches [SP1 to SP16], and reads blocks for them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE, decode_deposit
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import SELECTORS, parse_l1_info
from rollup_node.stages.protocol.transactions import ACCESS_LIST, DYNAMIC_FEE, LEGACY, POST_EXEC, SET_CODE
from rollup_node.stages.protocol.types import BlockId, Hash

SINGULAR_VERSION = b"\x00"
SPAN_VERSION = b"\x01"
CHECK_BYTES = 20


@dataclass(frozen=True)
class BatchBlock:
    """The part of an L2 block that a batch carries: `transactions` are the signed ones, without deposits."""

    parent_hash: Hash
    timestamp: int
    epoch: BlockId
    transactions: tuple[bytes, ...]


def singular_batch(block: BatchBlock) -> bytes:
    """One block as the batch type byte and the RLP list of its fields [BE2, SB1]."""
    return SINGULAR_VERSION + rlp.encode(
        [
            block.parent_hash,
            _integer(block.epoch.number),
            block.epoch.hash,
            _integer(block.timestamp),
            list(block.transactions),
        ]
    )


def span_batch(blocks: Sequence[BatchBlock], genesis_time: int, parent_origin_number: int) -> bytes:
    """Consecutive blocks as one span batch with its type byte [BE2, SP1 to SP16].

    `genesis_time` is the time of the L2 genesis in seconds. `parent_origin_number` is the L1 origin number of the block
    before the first; the first origin bit is set where the first block's origin differs from it."""
    first, last = blocks[0], blocks[-1]
    origins = [parent_origin_number, *(block.epoch.number for block in blocks)]
    transactions = _SpanTransactions()
    for block in blocks:
        for transaction in block.transactions:
            transactions.add(transaction)
    return b"".join(
        (
            SPAN_VERSION,
            _uvarint(first.timestamp - genesis_time),
            _uvarint(last.epoch.number),
            first.parent_hash[:CHECK_BYTES],
            last.epoch.hash[:CHECK_BYTES],
            _uvarint(len(blocks)),
            _bit_list(int(after != before) for before, after in pairwise(origins)),
            b"".join(_uvarint(len(block.transactions)) for block in blocks),
            transactions.encode(),
        )
    )


@dataclass
class _SpanTransactions:
    """The transactions of a span batch, one list per field."""

    contract_creation_bits: list[int] = field(default_factory=list)
    y_parity_bits: list[int] = field(default_factory=list)
    signatures: list[bytes] = field(default_factory=list)
    recipients: list[bytes] = field(default_factory=list)
    datas: list[bytes] = field(default_factory=list)
    nonces: list[int] = field(default_factory=list)
    gas_limits: list[int] = field(default_factory=list)
    protected_bits: list[int] = field(default_factory=list)

    def add(self, transaction: bytes) -> None:
        kind = transaction[0] if transaction[0] < 0x80 else LEGACY
        if kind == POST_EXEC:
            self._append(transaction, b"", 0, b"", b"", b"", b"")
            return
        fields = rlp.decode(transaction[1:] if kind else transaction)
        assert isinstance(fields, list)
        if kind == LEGACY:
            nonce, gas_price, gas, to, value, data, v, r, s = fields
            content: list[rlp.Item] = [value, gas_price, data]
            number = _number(v)  # v of EIP-155: 35 + 2 * chain id + parity, else 27 + parity
            self.protected_bits.append(int(number >= 35))
            parity = (number - 35) & 1 if number >= 35 else number - 27
        elif kind == ACCESS_LIST:
            _, nonce, gas_price, gas, to, value, data, access, v, r, s = fields
            content = [value, gas_price, data, access]
            parity = _number(v)
        elif kind == DYNAMIC_FEE:
            _, nonce, tip, fee_cap, gas, to, value, data, access, v, r, s = fields
            content = [value, tip, fee_cap, data, access]
            parity = _number(v)
        elif kind == SET_CODE:
            _, nonce, tip, fee_cap, gas, to, value, data, access, authorizations, v, r, s = fields
            content = [value, tip, fee_cap, data, access, authorizations]
            parity = _number(v)
        else:
            raise ValueError(f"a span batch cannot carry a transaction of type {kind}")
        self._append((bytes((kind,)) if kind else b"") + rlp.encode(content), to, parity, r, s, nonce, gas)

    def _append(
        self, data: bytes, to: rlp.Item, parity: int, r: rlp.Item, s: rlp.Item, nonce: rlp.Item, gas: rlp.Item
    ) -> None:
        recipient = _bytes(to)
        self.contract_creation_bits.append(int(not recipient))
        self.y_parity_bits.append(parity)
        self.signatures.append(_bytes(r).rjust(32, b"\0") + _bytes(s).rjust(32, b"\0"))
        if recipient:
            self.recipients.append(recipient)
        self.datas.append(data)
        self.nonces.append(_number(nonce))
        self.gas_limits.append(_number(gas))

    def encode(self) -> bytes:
        return b"".join(
            (
                _bit_list(self.contract_creation_bits),
                _bit_list(self.y_parity_bits),
                *self.signatures,
                *self.recipients,
                *self.datas,
                *map(_uvarint, self.nonces),
                *map(_uvarint, self.gas_limits),
                _bit_list(self.protected_bits),
            )
        )


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _bit_list(bits: Iterable[int]) -> bytes:
    """Bits packed as a big-endian number whose least significant bit is the first."""
    text = "".join("1" if bit else "0" for bit in bits)
    return int(text[::-1] or "0", 2).to_bytes((len(text) + 7) // 8, "big")


def _integer(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _bytes(item: rlp.Item) -> bytes:
    assert isinstance(item, bytes)
    return item


def _number(item: rlp.Item) -> int:
    return int.from_bytes(_bytes(item), "big")


PARENT, TIMESTAMP = 0, 11


@dataclass(frozen=True)
class L2Block:
    """A block's number and hash, the time of its L1 origin in seconds, and the part of it that a batch carries."""

    number: int
    hash: Hash
    origin_time: int
    batch: BatchBlock


def parse_block(number: int, raw: bytes) -> L2Block:
    """Parse a block's RLP. Raises ValueError unless its first transaction is the L1 attributes deposit."""
    block = rlp.decode(raw)
    assert isinstance(block, list) and isinstance(block[0], list) and isinstance(block[1], list)
    header = block[0]
    parent, timestamp = header[PARENT], header[TIMESTAMP]
    assert isinstance(parent, bytes) and isinstance(timestamp, bytes)
    transactions = [item if isinstance(item, bytes) else rlp.encode(item) for item in block[1]]
    origin, origin_time = _origin(transactions[0])
    return L2Block(
        number,
        keccak256(rlp.encode(header)),
        origin_time,
        BatchBlock(
            parent,
            int.from_bytes(timestamp, "big"),
            origin,
            tuple(raw for raw in transactions if raw[0] != DEPOSIT_TYPE),
        ),
    )


def _origin(info: bytes) -> tuple[BlockId, int]:
    """Return the L1 origin and its time in seconds, from the L1 attributes deposit in any layout."""
    data = decode_deposit(info).data
    layout = next(layout for layout, selector in SELECTORS.items() if data.startswith(selector))
    read = parse_l1_info(data, layout)
    return read.origin, read.timestamp
