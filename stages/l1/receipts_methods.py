"""The RPC method to fetch receipts by: the cheapest that the provider's kind supports [OPT71 to OPT73]."""

from typing import NamedTuple

from rollup_node.stages.protocol.jsonrpc_codes import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

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
