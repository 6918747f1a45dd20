"""A recording of L1: consecutive headers, the transactions and receipts of most blocks, and blobs by versioned hash.

A lookup of data that was not recorded raises NotRecorded: the data exists on L1, so "null" would be a false answer.
"""

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.secp256k1 import recover_address

BLOCKS_FILE = "l1_blocks.jsonl.gz"
MAX_BYTES = 1 << 30
"""Of that file, decompressed."""


class NotRecorded(LookupError):
    """The recording lacks the data; the text names it."""


@dataclass(frozen=True)
class RecordedBlock:
    """An L1 block as RLP of its header, transactions and receipts; None where transactions or receipts are missing."""

    number: int
    hash: bytes
    header_rlp: bytes
    transactions: tuple[bytes, ...] | None
    receipts: tuple[bytes, ...] | None

    @cached_property
    def header(self) -> dict[str, Any]:
        """The header's fields by their JSON-RPC names."""
        return header_json(self.hash, self.header_rlp)

    @property
    def timestamp(self) -> int:
        """The block time in seconds."""
        return int(self.header["timestamp"], 16)

    @cached_property
    def transactions_json(self) -> list[dict[str, Any]]:
        """Transaction objects with their senders. Raises NotRecorded without transactions."""
        if self.transactions is None:
            raise NotRecorded(f"the transactions of L1 block {self.number} were not recorded")
        base_fee = int(self.header["baseFeePerGas"], 16)
        return [
            transaction_json(raw, index, self.hash, self.number, base_fee)
            for index, raw in enumerate(self.transactions)
        ]

    def block(self, full: bool) -> dict[str, Any]:
        """Return the response of eth_getBlockBy*, with transaction objects or hashes.

        Raises NotRecorded without them."""
        if self.transactions is None:
            raise NotRecorded(f"the transactions of L1 block {self.number} were not recorded")
        listed = self.transactions_json if full else [to_hex(keccak256(raw)) for raw in self.transactions]
        return block_json(self.header, self.header_rlp, listed)

    def receipts_json(self) -> list[dict[str, Any]]:
        """Return the response of eth_getBlockReceipts. Raises NotRecorded without receipts."""
        return self._receipts

    @cached_property
    def _receipts(self) -> list[dict[str, Any]]:
        if self.receipts is None:
            raise NotRecorded(f"the receipts of L1 block {self.number} were not recorded")
        receipts: list[dict[str, Any]] = []
        log_index = gas_before = 0
        for transaction, raw in zip(self.transactions_json, self.receipts, strict=True):
            receipt = receipt_json(raw, transaction, log_index, gas_before)
            log_index += len(receipt["logs"])
            gas_before = int(receipt["cumulativeGasUsed"], 16)
            receipts.append(receipt)
        return receipts

    def blob_hashes(self) -> list[bytes]:
        """Versioned hashes of the block's blob transactions in block order: a hash's position is its blob index."""
        result: list[bytes] = []
        for raw in self.transactions or ():
            if raw[0] == 3:
                fields = rlp.decode(raw[1:])
                assert isinstance(fields, list) and isinstance(fields[10], list)
                result += [item for item in fields[10] if isinstance(item, bytes)]
        return result


class Recording:
    """The blocks of a recording by number and hash, and its blobs with their commitments by versioned hash."""

    def __init__(self, blocks: list[RecordedBlock], blobs: dict[bytes, tuple[bytes, bytes]]) -> None:
        self.by_number = {block.number: block for block in blocks}
        self.by_hash = {block.hash: block for block in blocks}
        self.blobs = blobs
        self.first, self.last = blocks[0].number, blocks[-1].number

    @classmethod
    def load(cls, folder: Path) -> "Recording":
        """Read `l1_blocks.jsonl.gz`, `expected.json` (commitments) and `blob_*.bin` of a folder.

        Raises OSError for files that are unreadable, and ValueError or LookupError for others than these."""
        with gzip.open(folder / BLOCKS_FILE) as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"{BLOCKS_FILE} has more than {MAX_BYTES} bytes")
        blocks = [_block(orjson.loads(line)) for line in content.splitlines()]
        expected = orjson.loads((folder / "expected.json").read_bytes())
        blobs = {
            bytes.fromhex(name): (
                (folder / f"blob_{name}.bin").read_bytes(),
                bytes.fromhex(entry["commitment"]),
            )
            for name, entry in expected["blobs"].items()
        }
        return cls(blocks, blobs)

    def block(self, number: int) -> RecordedBlock:
        """Return the block with a number. Raises NotRecorded outside of the recording."""
        if number not in self.by_number:
            raise NotRecorded(f"L1 block {number} was not recorded (the recording has {self.first} to {self.last})")
        return self.by_number[number]

    def block_by_hash(self, block_hash: bytes) -> RecordedBlock:
        """Return the block with a hash. Raises NotRecorded outside of the recording."""
        if block_hash not in self.by_hash:
            raise NotRecorded(f"L1 block {to_hex(block_hash)} was not recorded")
        return self.by_hash[block_hash]

    def last_with_transactions(self) -> RecordedBlock:
        """Return the newest block with transactions, which is served as the head."""
        return max(
            (block for block in self.by_number.values() if block.transactions is not None),
            key=lambda block: block.number,
        )


def _block(entry: dict[str, Any]) -> RecordedBlock:
    def raw(name: str) -> tuple[bytes, ...] | None:
        return tuple(map(bytes.fromhex, entry[name])) if name in entry else None

    return RecordedBlock(
        entry["number"],
        bytes.fromhex(entry["hash"].removeprefix("0x")),
        bytes.fromhex(entry["header_rlp"]),
        raw("txs"),
        raw("receipts"),
    )


Json = dict[str, Any]

HEADER_FIELDS = (
    ("parentHash", False),
    ("sha3Uncles", False),
    ("miner", False),
    ("stateRoot", False),
    ("transactionsRoot", False),
    ("receiptsRoot", False),
    ("logsBloom", False),
    ("difficulty", True),
    ("number", True),
    ("gasLimit", True),
    ("gasUsed", True),
    ("timestamp", True),
    ("extraData", False),
    ("mixHash", False),
    ("nonce", False),
    ("baseFeePerGas", True),
    ("withdrawalsRoot", False),
    ("blobGasUsed", True),
    ("excessBlobGas", True),
    ("parentBeaconBlockRoot", False),
    ("requestsHash", False),
)
"""Name in JSON-RPC, and whether the value is a quantity, in RLP order."""
LEGACY = ("nonce", "gasPrice", "gas", "to", "value", "input", "v", "r", "s")
TYPED = {
    1: ("chainId", "nonce", "gasPrice", "gas", "to", "value", "input", "accessList", "yParity", "r", "s"),
    2: (
        *("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "input"),
        *("accessList", "yParity", "r", "s"),
    ),
    3: (
        *("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "input"),
        *("accessList", "maxFeePerBlobGas", "blobVersionedHashes", "yParity", "r", "s"),
    ),
    4: (
        *("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "input"),
        *("accessList", "authorizationList", "yParity", "r", "s"),
    ),
}
SIGNATURE_FIELDS = 3


def _number(item: rlp.Item) -> str:
    assert isinstance(item, bytes)
    return hex(int.from_bytes(item, "big"))


def _plain(item: rlp.Item) -> bytes:
    assert isinstance(item, bytes)
    return item


def _fields(item: rlp.Item) -> list[rlp.Item]:
    assert isinstance(item, list)
    return item


def header_json(block_hash: bytes, header_rlp: bytes) -> Json:
    """Header fields by their JSON-RPC names, without those that the header's fork does not have."""
    fields = _fields(rlp.decode(header_rlp))
    header: Json = {"hash": to_hex(block_hash)}
    for (name, is_number), value in zip(HEADER_FIELDS, fields, strict=False):
        header[name] = _number(value) if is_number else to_hex(_plain(value))
    return header


def block_json(header: Json, header_rlp: bytes, transactions: list[Any]) -> Json:
    """Return a block object. It has no `withdrawals`, since they were not recorded."""
    return {**header, "size": hex(len(header_rlp)), "uncles": [], "transactions": transactions}


def transaction_json(raw: bytes, index: int, block_hash: bytes, number: int, base_fee: int) -> Json:
    """Return a transaction object with its sender."""
    kind = raw[0] if raw[0] < 0x80 else 0
    names = TYPED.get(kind, LEGACY)
    fields = _fields(rlp.decode(raw[1:] if kind else raw))
    transaction: Json = {
        "type": hex(kind),
        "hash": to_hex(keccak256(raw)),
        "blockHash": to_hex(block_hash),
        "blockNumber": hex(number),
        "transactionIndex": hex(index),
        "from": to_hex(_sender(kind, fields)),
    }
    for name, value in zip(names, fields, strict=True):
        transaction[name] = _transaction_field(name, value)
    if kind:
        transaction["v"] = transaction["yParity"]
    if "maxFeePerGas" in transaction:
        tip, cap = int(transaction["maxPriorityFeePerGas"], 16), int(transaction["maxFeePerGas"], 16)
        transaction["gasPrice"] = hex(min(cap, base_fee + tip))
    elif kind == 0 and int(transaction["v"], 16) >= 35:
        transaction["chainId"] = hex((int(transaction["v"], 16) - 35) // 2)
    return transaction


def _transaction_field(name: str, value: rlp.Item) -> Any:
    if name == "accessList":
        return [
            {"address": to_hex(_plain(_fields(entry)[0])), "storageKeys": _hexes(_fields(entry)[1])}
            for entry in _fields(value)
        ]
    if name == "blobVersionedHashes":
        return _hexes(value)
    if name == "authorizationList":
        return [_authorization(_fields(entry)) for entry in _fields(value)]
    if name == "to":
        return to_hex(_plain(value)) if value else None
    return to_hex(_plain(value)) if name == "input" else _number(value)


def _authorization(entry: list[rlp.Item]) -> Json:
    names = ("chainId", "address", "nonce", "yParity", "r", "s")
    return {
        name: to_hex(_plain(value)) if name == "address" else _number(value)
        for name, value in zip(names, entry, strict=True)
    }


def _hexes(item: rlp.Item) -> list[str]:
    return [to_hex(_plain(value)) for value in _fields(item)]


def _sender(kind: int, fields: list[rlp.Item]) -> bytes:
    unsigned = fields[:-SIGNATURE_FIELDS]
    v, r, s = (int.from_bytes(_plain(item), "big") for item in fields[-SIGNATURE_FIELDS:])
    parity = v
    if kind == 0:
        parity = (v - 35) & 1 if v >= 35 else v - 27
        if v >= 35:
            unsigned = [*unsigned, _minimal((v - 35) // 2), b"", b""]
    digest = keccak256((bytes((kind,)) if kind else b"") + rlp.encode(unsigned))
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes((parity,))
    sender = recover_address(digest, signature)
    assert sender is not None, "a recorded transaction has a valid signature"
    return sender


def _minimal(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def receipt_json(raw: bytes, transaction: Json, first_log: int, gas_before: int) -> Json:
    """Return a receipt object.

    `first_log` is the index of its first log in the block, `gas_before` the gas used before it."""
    kind = raw[0] if raw[0] < 0x80 else 0
    status, cumulative, bloom, logs = _fields(rlp.decode(raw[1:] if kind else raw))
    place = {
        "blockHash": transaction["blockHash"],
        "blockNumber": transaction["blockNumber"],
        "transactionHash": transaction["hash"],
        "transactionIndex": transaction["transactionIndex"],
    }
    return {
        **place,
        "type": hex(kind),
        "status": _number(status),
        "cumulativeGasUsed": _number(cumulative),
        "gasUsed": hex(int.from_bytes(_plain(cumulative), "big") - gas_before),
        "effectiveGasPrice": transaction["gasPrice"],
        "from": transaction["from"],
        "to": transaction["to"],
        "contractAddress": None,
        "logsBloom": to_hex(_plain(bloom)),
        "logs": [
            {
                **place,
                "address": to_hex(_plain(_fields(log)[0])),
                "topics": _hexes(_fields(log)[1]),
                "data": to_hex(_plain(_fields(log)[2])),
                "logIndex": hex(first_log + offset),
                "removed": False,
            }
            for offset, log in enumerate(_fields(logs))
        ],
    }
