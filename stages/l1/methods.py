"""Which RPC method to fetch an L1 block's receipts by: the cheapest that the kind of provider is known to have, less
those that turned out not to work (node-behaviour 2.10)."""

from typing import NamedTuple

from rollup_node.stages.protocol.jsonrpc_codes import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

RETRY_SECONDS = 60.0
ONE_BY_ONE = "eth_getTransactionReceipt"

_UNUSABLE_CODES = (INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS)
_UNUSABLE_TEXTS = (
    "unsupported method",
    "unknown method",
    "invalid param",
    "is not available",
    "rpc method is not whitelisted",
    "does not exist",
    "method not found",
)


class Choice(NamedTuple):
    """A method and the number of transactions above which it pays."""

    method: str
    above: int = 0


_ALCHEMY = "alchemy_getTransactionReceipts"
_BLOCK = "eth_getBlockReceipts"
_RAW = "debug_getRawReceipts"
_ERIGON = "erigon_getBlockReceiptsByBlockHash"
_PARITY = "parity_getBlockReceipts"

KINDS: dict[str, tuple[Choice, ...]] = {
    "alchemy": (Choice(_ALCHEMY, 16), Choice(_BLOCK, 33)),
    "quicknode": (Choice(_RAW), Choice(_BLOCK, 29)),
    "infura": (Choice(_BLOCK),),
    "standard": (Choice(_BLOCK),),
    "parity": (Choice(_PARITY),),
    "nethermind": (Choice(_PARITY),),
    "debug_geth": (Choice(_RAW),),
    "erigon": (Choice(_ERIGON),),
    "basic": (),
    "any": (Choice(_ALCHEMY), Choice(_RAW), Choice(_ERIGON), Choice(_BLOCK), Choice(_PARITY)),
}


class ReceiptsMethods:
    """The methods of one endpoint. Times are seconds of any steady clock."""

    def __init__(self, kind: str) -> None:
        self._choices = KINDS[kind]
        self._unusable: dict[str, float] = {}

    def choose(self, transactions: int, now: float) -> str:
        """The method for a block with so many transactions; one by one when there is no better."""
        for method, above in self._choices:
            if transactions > above and self._unusable.get(method, now) <= now:
                return method
        return ONE_BY_ONE

    def drop(self, method: str, now: float) -> None:
        """Leaves a method out for a minute."""
        self._unusable[method] = now + RETRY_SECONDS

    @staticmethod
    def parameter(method: str, block_hash: str) -> object:
        """What a method for a whole block is called with."""
        return {"blockHash": block_hash} if method == _ALCHEMY else block_hash


def is_unusable(code: int, message: str) -> bool:
    """Whether an error says that the endpoint does not have the method."""
    lowered = message.lower()
    return code in _UNUSABLE_CODES or any(text in lowered for text in _UNUSABLE_TEXTS)


def is_not_found(message: str) -> bool:
    """Whether an error says that there is no such block, as some servers do in place of a null result."""
    lowered = message.lower()
    return any(text in lowered for text in ("block not found", "unknown block", "header not found"))
