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
from rollup_node.tools.recorded.responses import block_json, header_json, receipt_json, transaction_json

BLOCKS_FILE = "l1_blocks.jsonl.gz"


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
        found: list[bytes] = []
        for raw in self.transactions or ():
            if raw[0] == 3:
                fields = rlp.decode(raw[1:])
                assert isinstance(fields, list) and isinstance(fields[10], list)
                found += [item for item in fields[10] if isinstance(item, bytes)]
        return found


class Recording:
    """The blocks of a recording by number and hash, and its blobs with their commitments by versioned hash."""

    def __init__(self, blocks: list[RecordedBlock], blobs: dict[bytes, tuple[bytes, bytes]]) -> None:
        self.by_number = {block.number: block for block in blocks}
        self.by_hash = {block.hash: block for block in blocks}
        self.blobs = blobs
        self.first, self.last = blocks[0].number, blocks[-1].number

    @classmethod
    def load(cls, folder: Path) -> "Recording":
        """Read `l1_blocks.jsonl.gz`, `expected.json` (commitments) and `blob_*.bin` of a folder."""
        lines = gzip.decompress((folder / BLOCKS_FILE).read_bytes()).splitlines()
        blocks = [_block(orjson.loads(line)) for line in lines]
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
