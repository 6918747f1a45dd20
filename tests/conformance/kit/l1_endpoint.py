"""An L1 endpoint with a made-up chain whose hashes and roots are correct: its blocks and receipts in JSON."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import rlp

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.protocol.headers import Header, encode_header, header_hash
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.types import Hash, L1Block, Log
from rollup_node.tools.recorded.recording import block_json, header_json, receipt_json, transaction_json
from tests.conformance.kit.chain import (
    FIRST_L1,
    GENESIS_TIME,
    INBOX,
    L1_BLOCK_TIME,
    L1_CHAIN_ID,
    SYSTEM_CONFIG_CONTRACT,
)
from tests.support.chains.fake_l1_chain import plain_header
from tests.support.chains.logs_bloom import logs_bloom
from tests.support.l1_blocks import sent_block

L1_FILTER = L1Filter(L1_CHAIN_ID, INBOX, b"\xde" * 20, SYSTEM_CONFIG_CONTRACT)
GAS = 100_000


class EndpointTransaction(NamedTuple):
    """A transaction's bytes and what it did."""

    raw: bytes
    logs: tuple[Log, ...] = ()
    succeeded: bool = True


class EndpointBlock(NamedTuple):
    """A block of the endpoint."""

    header: Header
    transactions: tuple[EndpointTransaction, ...]
    receipts: tuple[bytes, ...]

    @property
    def number(self) -> int:
        return self.header.number

    @property
    def hash(self) -> Hash:
        return header_hash(self.header)


class L1Endpoint:
    """Blocks from `FIRST_L1` on, and the methods that give them."""

    def __init__(self) -> None:
        self.blocks: list[EndpointBlock] = []
        self.add()

    def add(self, *transactions: EndpointTransaction, branch: int = 0) -> EndpointBlock:
        """Another block."""
        receipts = tuple(_receipt(item, GAS * place) for place, item in enumerate(transactions, start=1))
        logs = [log for transaction in transactions for log in transaction.logs]
        header = plain_header(
            FIRST_L1 + len(self.blocks),
            self.blocks[-1].hash if self.blocks else bytes(32),
            GENESIS_TIME + L1_BLOCK_TIME * len(self.blocks),
            miner=branch.to_bytes(20, "big"),
            transactions_root=ordered_root([transaction.raw for transaction in transactions]),
            receipts_root=ordered_root(receipts),
            logs_bloom=_bloom(logs),
            gas_used=GAS * len(transactions),
        )
        self.blocks.append(EndpointBlock(header, transactions, receipts))
        return self.blocks[-1]

    def replace(self, depth: int, length: int) -> None:
        """Another branch in place of the last blocks, without transactions."""
        del self.blocks[len(self.blocks) - depth :]
        for _ in range(length):
            self.add(branch=1)

    def block(self, number: int) -> Any:
        """Return a block with full transactions in JSON."""
        result = self.blocks[number - FIRST_L1]
        transactions = [
            transaction_json(item.raw, index, result.hash, number, result.header.base_fee or 0)
            for index, item in enumerate(result.transactions)
        ]
        encoded = encode_header(result.header)
        return block_json(header_json(result.hash, encoded), encoded, transactions)

    def receipts(self, block_hash: Hash) -> Any:
        """Return a block's receipts in JSON; None for a block that is not of this chain."""
        block = next((block for block in self.blocks if block.hash == block_hash), None)
        if block is None:
            return None
        receipts, logs = [], 0
        for index, raw in enumerate(block.receipts):
            transaction = self.block(block.number)["transactions"][index]
            receipts.append(receipt_json(raw, transaction, logs, GAS * index))
            logs += len(block.transactions[index].logs)
        return receipts

    def verified(self, number: int, l1_filter: L1Filter = L1_FILTER, trust: bool = False) -> L1Block:
        """Return the block as the l1 process hands it out."""
        return sent_block(self.block(number), number, trust, l1_filter, self.receipts)

    def methods(self) -> dict[str, Callable[..., Any]]:
        """By name, as a JSON-RPC server takes them."""

        def by_number(number: str, full: bool) -> Any:
            last = FIRST_L1 + len(self.blocks) - 1
            requested = last if number == "latest" else FIRST_L1 if number in ("safe", "finalized") else int(number, 16)
            return self.block(requested) if FIRST_L1 <= requested <= last else None

        return {
            "eth_chainId": lambda: hex(L1_CHAIN_ID),
            "eth_getBlockByNumber": by_number,
            "eth_getBlockReceipts": lambda block_hash: self.receipts(bytes.fromhex(block_hash[2:])),
        }


def _receipt(transaction: EndpointTransaction, cumulative_gas: int) -> bytes:
    kind = transaction.raw[0] if transaction.raw[0] < 0x80 else 0
    logs = [[log.address, list(log.topics), log.data] for log in transaction.logs]
    body: bytes = rlp.encode([int(transaction.succeeded), cumulative_gas, _bloom(transaction.logs), logs])
    return bytes((kind,)) + body if kind else body


def _bloom(logs: Iterable[Log]) -> bytes:
    return logs_bloom([value for log in logs for value in (log.address, *log.topics)])
