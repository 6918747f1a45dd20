"""Checks an L1 block's receipts, in JSON or raw, against the receipts root of its header [LHD13, LHD15]."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rollup_node.stages.l1.filter import L1Filter, split_logs, wanted_events
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock
from rollup_node.stages.protocol.commitments import CHALLENGE_TOPIC, resolves
from rollup_node.stages.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_quantity, to_hex
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import ReceiptError, logs_of_receipts, receipt_from_json
from rollup_node.stages.protocol.types import ChallengeLog, Log

Json = Mapping[str, Any]


class VerifiedLogs(NamedTuple):
    """The wanted logs of a block; `challenges` are those of Alt-DA."""

    deposits: tuple[Log, ...]
    config_updates: tuple[Log, ...]
    challenges: tuple[ChallengeLog, ...]


def verified_logs(receipts: Any, block: VerifiedBlock, l1_filter: L1Filter) -> VerifiedLogs:
    """Return the wanted logs in a block's receipts.

    `receipts` is a list of JSON objects or of raw hex, or an object with such a list under `receipts`. Raises
    InvalidDataError where they are not the block's receipts."""
    if isinstance(receipts, dict):
        receipts = receipts.get("receipts")
    where = f"the receipts of block {block.header.number}"
    if not isinstance(receipts, list):
        raise InvalidDataError(f"{where} are not a list")
    if len(receipts) != len(block.transaction_hashes):
        raise InvalidDataError(f"{where} are {len(receipts)}, but it has {len(block.transaction_hashes)} transactions")
    try:
        encoded = [_encoded(item, index) for index, item in enumerate(receipts)]
        _check_fields(receipts, block)
    except (ReceiptError, HexError) as error:
        raise InvalidDataError(f"{where} are malformed: {error}") from None
    if ordered_root(encoded) != block.receipts_root:
        raise InvalidDataError(f"{where} do not match its receipts root")
    deposits, updates, challenges = split_logs(logs_of_receipts(encoded, wanted_events(l1_filter)))
    return VerifiedLogs(deposits, updates, _challenge_logs(challenges, encoded, block, l1_filter))


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


def _encoded(item: Any, index: int) -> bytes:
    if isinstance(item, str):
        return from_hex(item)
    if isinstance(item, dict):
        return receipt_from_json(item)
    raise ReceiptError(f"receipt {index} is neither an object nor raw bytes")


def _check_fields(receipts: Sequence[Json | str], block: VerifiedBlock) -> None:
    """Check what the root does not cover: where receipts and their logs belong; raw ones do not say it."""
    cumulative = logs = 0
    for index, receipt in enumerate(receipts):
        if isinstance(receipt, str):
            continue
        position = _position(index, block)
        if _named_position(receipt) != position:
            _check_position(receipt, f"receipt {index}", index, block)
        total = from_quantity(receipt.get("cumulativeGasUsed"))
        used = from_quantity(receipt.get("gasUsed"))
        if total - cumulative != used:
            raise InvalidDataError(f"receipt {index} has gas used {used}, expected {total - cumulative}")
        cumulative = total
        for log in receipt["logs"]:
            if _named_position(log) != position:
                _check_position(log, f"log {logs} of receipt {index}", index, block)
            if from_quantity(log.get("logIndex")) != logs:
                raise InvalidDataError(f"receipt {index} has log index {log['logIndex']}, expected {logs}")
            if log.get("removed"):
                raise InvalidDataError(f"log {logs} of receipt {index} is marked as removed")
            logs += 1


def _named_position(item: Json) -> tuple[Any, ...]:
    return item.get("transactionIndex"), item.get("blockNumber"), item.get("blockHash"), item.get("transactionHash")


def _position(index: int, block: VerifiedBlock) -> tuple[str, str, str, str]:
    """Return the fields of a transaction's position as nearly all servers write them."""
    header = block.header
    return hex(index), hex(header.number), to_hex(header.hash), to_hex(block.transaction_hashes[index])


def _check_position(item: Json, name: str, index: int, block: VerifiedBlock) -> None:
    """Raise InvalidDataError if a receipt or log names another block or transaction than its own."""
    wrong = [
        field
        for field, value in (("transactionIndex", index), ("blockNumber", block.header.number))
        if item.get(field) is None or from_quantity(item[field]) != value
    ]
    wrong += [
        field
        for field, value in (("blockHash", block.header.hash), ("transactionHash", block.transaction_hashes[index]))
        if item.get(field) is None or from_hex(item[field]) != value
    ]
    if wrong:
        shown = f"{item.get(wrong[0])!r}"[:80]
        raise InvalidDataError(f"{name} has {wrong[0]} {shown}, which is not that of its place in the block")


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
