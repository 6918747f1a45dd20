"""Why an L1 endpoint does not do what is asked: as a code for people, and as a fault of the endpoint [LHD26]."""

from rollup_node.stages.io.http.endpoint_errors import TOO_MANY_REQUESTS, tls_code
from rollup_node.stages.io.http.jsonrpc import EndpointError, MalformedAnswerError, RpcFailure
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.codes import Code

_LIMIT_EXCEEDED = -32005
_LIMITS = ("rate limit", "too many requests", "request limit", "limit exceeded", "compute units", "capacity")
"""Words of providers that answer with a JSON-RPC error instead of HTTP status 429."""


class ThrottledError(EndpointError):
    """The endpoint asked to be left alone for a while."""


class OtherChainError(EndpointError):
    """The endpoint is of another chain than the rollup's L1."""


class BehindError(InvalidDataError):
    """The endpoint does not have yet what belongs to a block that it has."""


class BatchRefusedError(EndpointError):
    """The endpoint does not answer batches of calls."""


def code_of(error: Exception) -> Code:
    """Return the code for the error of a call, of the data that it returned, or of an endpoint that is not called."""
    if isinstance(error, OtherChainError):
        return Code.L1_CHAIN
    if _is_throttled(error):
        return Code.L1_THROTTLED
    if not isinstance(error, EndpointError):
        return Code.L1_BLOCK
    return tls_code(str(error)) or Code.L1_UNREACHABLE


def fault_of(error: Exception) -> EndpointFault:
    """Return the fault of the endpoint that the error of a call, or of the data that it returned, shows."""
    if isinstance(error, OtherChainError):
        return EndpointFault.OTHER_CHAIN
    if _is_throttled(error):
        return EndpointFault.THROTTLED
    if isinstance(error, InvalidDataError):
        return EndpointFault.BEHIND if isinstance(error, BehindError) else EndpointFault.WRONG_DATA
    return EndpointFault.FAILING if isinstance(error, RpcFailure) else EndpointFault.UNREACHABLE


def refuses_batches(error: Exception) -> bool:
    """Whether the error of a batch may not be one of its calls alone."""
    if _is_throttled(error):
        return False
    status = error.status if isinstance(error, EndpointError) else None
    return isinstance(error, RpcFailure | MalformedAnswerError) or (status is not None and 400 <= status < 500)


def _is_throttled(error: Exception) -> bool:
    if isinstance(error, RpcFailure):
        words = error.message.lower()
        return error.code in (_LIMIT_EXCEEDED, TOO_MANY_REQUESTS) or any(limit in words for limit in _LIMITS)
    if not isinstance(error, EndpointError):
        return False
    return isinstance(error, ThrottledError) or error.retry_after is not None or error.status == TOO_MANY_REQUESTS
