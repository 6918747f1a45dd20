"""The fault of an L1 endpoint that an error of a call shows [LHD26]."""

from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.l1.endpoint_pool import Fault
from rollup_node.stages.l1.verify import InvalidDataError

TOO_MANY_REQUESTS = 429
_LIMIT_EXCEEDED = (-32005, TOO_MANY_REQUESTS)
_LIMIT_WORDS = ("rate limit", "too many requests", "request limit", "limit exceeded", "compute units", "capacity")


class WrongChainError(EndpointError):
    """The endpoint is on another chain than the rollup's L1."""


class BehindError(InvalidDataError):
    """The endpoint does not have yet what belongs to a block that it has."""


def fault_of(error: Exception) -> Fault:
    """The fault that an error of a call shows."""
    if isinstance(error, WrongChainError):
        return Fault.OTHER_CHAIN
    if isinstance(error, BehindError):
        return Fault.BEHIND
    if isinstance(error, InvalidDataError):
        return Fault.WRONG_DATA
    if isinstance(error, RpcFailure):
        words = error.message.lower()
        limited = error.code in _LIMIT_EXCEEDED or any(each in words for each in _LIMIT_WORDS)
        return Fault.THROTTLED if limited else Fault.FAILING
    if isinstance(error, EndpointError) and (error.retry_after is not None or error.status == TOO_MANY_REQUESTS):
        return Fault.THROTTLED
    return Fault.UNREACHABLE
