"""Checks an L1 block's receipts, in JSON or raw, against the receipts root of its header [LHD13, LHD15]."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import orjson

from rollup_node.stages.l1.filter import L1Filter, split_logs, wanted_events
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock, parse_result
from rollup_node.stages.protocol.answer_limits import receipts_limit
from rollup_node.stages.protocol.commitments import CHALLENGE_TOPIC, resolves
from rollup_node.stages.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_quantity, to_hex
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import (
    LogJson,
    ReceiptError,
    ReceiptJson,
    logs_of_receipts,
    parse_receipt,
    receipt_from_json,
    receipt_from_raw,
)
from rollup_node.stages.protocol.types import ChallengeLog, Hash, Log


class VerifiedLogs(NamedTuple):
    """The wanted logs of a block; `challenges` are those of Alt-DA."""

    deposits: tuple[Log, ...]
    config_updates: tuple[Log, ...]
    challenges: tuple[ChallengeLog, ...]


class _Listed(msgspec.Struct):
    """How one provider wraps its list."""

    receipts: list[msgspec.Raw]


def verified_logs(
    body: bytes, block: VerifiedBlock, l1_filters: Sequence[L1Filter], nodes: dict[Hash, bytes] | None = None
) -> tuple[VerifiedLogs, ...]:
    """Return the wanted logs for each filter in the JSON-RPC response about a block's receipts.

    The nodes of their trie are added to `nodes`.
    Its result is a list of receipts, as objects or as raw hex, or an object with such a list under `receipts`. One
    receipt after the other is decoded, so that memory holds the objects of one. Raises InvalidDataError where they are
    not the block's receipts."""
    where = f"the receipts of block {block.header.number}"
    answer = parse_result(body, receipts_limit(block.gas_used), _Listed | list[msgspec.Raw])
    receipts: list[msgspec.Raw] | None = answer.receipts if isinstance(answer, _Listed) else answer
    if receipts is None:
        raise InvalidDataError(f"{where} are not a list")
    if len(receipts) != len(block.transaction_hashes):
        raise InvalidDataError(f"{where} are {len(receipts)}, but it has {len(block.transaction_hashes)} transactions")
    places = _Places(block)
    try:
        encoded = [_encoded(item, index, places) for index, item in enumerate(receipts)]
    except (ReceiptError, HexError) as error:
        raise InvalidDataError(f"{where} are malformed: {error}") from None
    if ordered_root(encoded, nodes) != block.receipts_root:
        raise InvalidDataError(f"{where} do not match its receipts root")
    logs, result = logs_of_receipts(encoded, wanted_events(l1_filters)), []
    for l1_filter in l1_filters:
        deposits, updates, challenges = split_logs(logs, l1_filter)
        result.append(VerifiedLogs(deposits, updates, _challenge_logs(challenges, encoded, block, l1_filter)))
    return tuple(result)


def _challenge_logs(
    logs: Sequence[Log], receipts: Sequence[bytes], block: VerifiedBlock, l1_filter: L1Filter
) -> tuple[ChallengeLog, ...]:
    """Return the logs of challenges, each with the data of its transaction where that resolves the challenge [ADA7]."""
    contract = l1_filter.challenge_contract
    if contract is None or not logs:
        return ()
    wanted = {(contract, CHALLENGE_TOPIC)}
    transactions = [index for index, raw in enumerate(receipts) for _ in logs_of_receipts([raw], wanted)]
    data = dict(block.resolve_data)
    return tuple(
        ChallengeLog(log, data.get(index) if resolves(log) else None)
        for log, index in zip(logs, transactions, strict=True)
    )


def _encoded(item: msgspec.Raw, index: int, places: "_Places") -> bytes:
    first = bytes(memoryview(item)[:1])
    if first == b'"':
        return receipt_from_raw(from_hex(orjson.loads(memoryview(item))))
    if first != b"{":
        raise ReceiptError(f"receipt {index} is neither an object nor raw bytes")
    receipt = parse_receipt(item)
    places.check(receipt, index)
    return receipt_from_json(receipt)


class _Places:
    """Checks what the root does not cover: the fields that say where a receipt and its logs belong. Raw ones have none.

    To be called for one receipt after the other."""

    def __init__(self, block: VerifiedBlock) -> None:
        self._block, self._gas, self._logs = block, 0, 0
        self._number, self._hash = hex(block.header.number), to_hex(block.header.hash)

    def check(self, receipt: ReceiptJson, index: int) -> None:
        """Raise InvalidDataError or HexError if a field is not that of the receipt's place in the block."""
        # As nearly all servers write it.
        place = hex(index), self._number, self._hash, to_hex(self._block.transaction_hashes[index])
        if _place(receipt) != place:
            _check_place(receipt, f"receipt {index}", index, self._block)
        total = from_quantity(receipt.cumulative_gas_used)
        used = total - self._gas
        if receipt.gas_used != hex(used) and from_quantity(receipt.gas_used) != used:
            raise InvalidDataError(f"receipt {index} has gas used {from_quantity(receipt.gas_used)}, expected {used}")
        self._gas = total
        for log in receipt.logs:
            if _place(log) != place:
                _check_place(log, f"log {self._logs} of receipt {index}", index, self._block)
            if log.log_index != hex(self._logs) and from_quantity(log.log_index) != self._logs:
                raise InvalidDataError(f"receipt {index} has log index {log.log_index}, expected {self._logs}")
            if log.removed:
                raise InvalidDataError(f"log {self._logs} of receipt {index} is marked as removed")
            self._logs += 1


_place: Callable[[ReceiptJson | LogJson], tuple[str | None, ...]]
_place = attrgetter("transaction_index", "block_number", "block_hash", "transaction_hash")


def _check_place(item: ReceiptJson | LogJson, name: str, index: int, block: VerifiedBlock) -> None:
    """Raise InvalidDataError if a receipt or log names another block or transaction than its own."""
    header, transaction = block.header, block.transaction_hashes[index]
    expected: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
        ("transactionIndex", from_quantity, index),
        ("blockNumber", from_quantity, header.number),
        ("blockHash", from_hex, header.hash),
        ("transactionHash", from_hex, transaction),
    )
    for text, (field, convert, value) in zip(_place(item), expected, strict=True):
        if text is None or convert(text) != value:
            raise InvalidDataError(f"{name} has {field} {text!r:.80}, which is not that of its place in the block")


RETRY_SECONDS = 60.0
ONE_BY_ONE = "eth_getTransactionReceipt"

_UNSUPPORTED_CODES = (INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS)
_UNSUPPORTED_TEXTS = (
    "unsupported method",
    "unknown method",
    "invalid param",
    "is not available",
    "rpc method is not whitelisted",
    "does not exist",
    "method not found",
)
_NOT_FOUND_TEXTS = ("block not found", "unknown block", "header not found")


class MethodChoice(NamedTuple):
    """A method, and the number of transactions above which it is cheaper than the next one."""

    method: str
    above: int = 0


_ALCHEMY = "alchemy_getTransactionReceipts"
_BLOCK = "eth_getBlockReceipts"
_RAW = "debug_getRawReceipts"
_ERIGON = "erigon_getBlockReceiptsByBlockHash"
_PARITY = "parity_getBlockReceipts"

KINDS: dict[str, tuple[MethodChoice, ...]] = {
    "alchemy": (MethodChoice(_ALCHEMY, 16), MethodChoice(_BLOCK, 33)),
    "quicknode": (MethodChoice(_RAW), MethodChoice(_BLOCK, 29)),
    "infura": (MethodChoice(_BLOCK),),
    "standard": (MethodChoice(_BLOCK),),
    "parity": (MethodChoice(_PARITY),),
    "nethermind": (MethodChoice(_PARITY),),
    "debug_geth": (MethodChoice(_RAW),),
    "erigon": (MethodChoice(_ERIGON),),
    "basic": (),
    "any": (
        MethodChoice(_ALCHEMY),
        MethodChoice(_RAW),
        MethodChoice(_ERIGON),
        MethodChoice(_BLOCK),
        MethodChoice(_PARITY),
    ),
}
"""By the value of `l1.rpckind`, in the order of preference."""


class ReceiptsMethods:
    """The methods of one endpoint. Times are seconds of any monotonic clock."""

    def __init__(self, kind: str) -> None:
        self._choices = KINDS[kind]
        self._unsupported_until: dict[str, float] = {}

    def choose(self, transactions: int, now: float) -> str:
        """Return the method for a block with so many transactions; ONE_BY_ONE if no method for whole blocks is left."""
        for method, above in self._choices:
            if transactions > above and self._unsupported_until.get(method, now) <= now:
                return method
        return ONE_BY_ONE

    def drop(self, method: str, now: float) -> None:
        """Do not choose a method for RETRY_SECONDS."""
        self._unsupported_until[method] = now + RETRY_SECONDS

    @staticmethod
    def parameter(method: str, block_hash: str) -> object:
        """Return the parameter of a method for whole blocks [OPT72]."""
        return {"blockHash": block_hash} if method == _ALCHEMY else block_hash


def is_unsupported(code: int, message: str) -> bool:
    """Whether an error says that the endpoint does not support the method [OPT73]."""
    lowered = message.lower()
    return code in _UNSUPPORTED_CODES or any(text in lowered for text in _UNSUPPORTED_TEXTS)


def is_not_found(message: str) -> bool:
    """Whether an error says that there is no such block; some servers do so instead of a null result [LHD7]."""
    lowered = message.lower()
    return any(text in lowered for text in _NOT_FOUND_TEXTS)
