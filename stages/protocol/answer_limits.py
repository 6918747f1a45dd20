"""What the answers of endpoints may hold, by JSON-RPC method; docs/security.md explains the numbers."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class AnswerLimit(NamedTuple):
    """So many bytes, and so many JSON values, each of which may take about 100 bytes of memory."""

    bytes: int
    values: int

    def times(self, calls: int) -> "AnswerLimit":
        """Return the limit of a batch of calls."""
        return AnswerLimit(self.bytes * calls, self.values * calls)


SMALL = AnswerLimit(1 << 20, 50_000)
"""A number, a hash, a status, a proof: all methods of `eth` and `engine` without a limit of their own."""

OTHER = AnswerLimit(8 << 20, 500_000)
"""Methods of other namespaces, which operators and tools call."""

HEADER = AnswerLimit(1 << 20, 30_000)
"""A block with the hashes of its transactions: 15,000 of them."""

BATCHED_HEADER = AnswerLimit(512 << 10, 15_000)
"""The share of one such block in the answer to a batch."""

L1_BLOCK = AnswerLimit(32 << 20, 500_000)
"""An L1 block with full transactions: EIP-7934 bounds it at 10 MiB of RLP, twice that in hex."""

ORDINARY_L1_BLOCK = AnswerLimit(6 << 20, 400_000)
"""What nearly every L1 block with full transactions keeps to. The blocks of longer answers are fetched again one after
the other, so that no more than one of them is in memory."""

L2_BLOCK = AnswerLimit(256 << 20, 8_000_000)
"""A block or payload of any chain with full transactions: only its gas bounds an L2 block, at 10 gas a byte for many
million gas."""

RECEIPT = AnswerLimit(40 << 20, 4_000_000)
"""One receipt, of a transaction that EIP-7825 bounds at 16.8 million gas."""

RECEIPTS = AnswerLimit(256 << 20, 16_000_000)
"""All receipts of a block of unknown gas."""

_FEW_RECEIPTS = AnswerLimit(1 << 20, 20_000)
_BYTES_A_GAS, _GAS_A_VALUE = 2, 16

_LIMITS = {
    "eth_getTransactionReceipt": RECEIPT,
    "eth_getLogs": RECEIPT,
    "eth_getBlockReceipts": RECEIPTS,
    "alchemy_getTransactionReceipts": RECEIPTS,
    "debug_getRawReceipts": RECEIPTS,
    "erigon_getBlockReceiptsByBlockHash": RECEIPTS,
    "parity_getBlockReceipts": RECEIPTS,
}
_BLOCKS = ("eth_getBlockByNumber", "eth_getBlockByHash")


def answer_limit(method: str, params: Sequence[Any]) -> AnswerLimit:
    """Return the limit of the answer to a call."""
    if method in _BLOCKS:
        return L2_BLOCK if len(params) > 1 and params[1] else HEADER
    if method.startswith("engine_getPayload"):
        return L2_BLOCK
    return _LIMITS.get(method, SMALL if method.startswith(("eth_", "engine_")) else OTHER)


def receipts_limit(gas_used: int) -> AnswerLimit:
    """Return the limit of all receipts of a block by the gas it used.

    A log costs at least 375 gas, a receipt 12,000 (EIP-2780), and 8 gas pay for a byte of data: at most 1.4 bytes of
    compact JSON for a gas, and a value for 27 gas. From Amsterdam on a header's gas is not less than what execution
    used, with all logs, refunds not deducted (EIP-8037, EIP-7778)."""
    return AnswerLimit(
        min(_FEW_RECEIPTS.bytes + _BYTES_A_GAS * gas_used, RECEIPTS.bytes),
        min(_FEW_RECEIPTS.values + gas_used // _GAS_A_VALUE, RECEIPTS.values),
    )
