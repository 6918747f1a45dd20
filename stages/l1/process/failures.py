"""Why an L1 endpoint does not do what is asked, as a code."""

from rollup_node.stages.io.endpoint_errors import tls_code
from rollup_node.stages.io.http_status import TOO_MANY_REQUESTS
from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.messages.codes import Code

_LIMIT_EXCEEDED = -32005
_LIMITS = ("rate limit", "too many requests", "request limit", "compute units")
"""Words of providers that answer with a JSON-RPC error instead of HTTP status 429."""


class ThrottledError(EndpointError):
    """The endpoint asked to be left alone for a while."""


class OtherChainError(EndpointError):
    """The endpoint is of another chain than the rollup's L1."""


def code_of(error: Exception) -> Code:
    """The code for the error of a call, of the data that it returned, or of an endpoint that is not called."""
    if isinstance(error, OtherChainError):
        return Code.L1_CHAIN
    words = str(error)
    if isinstance(error, RpcFailure):
        limited = error.code in (_LIMIT_EXCEEDED, TOO_MANY_REQUESTS) or any(each in words.lower() for each in _LIMITS)
        return Code.L1_THROTTLED if limited else Code.L1_BLOCK
    if not isinstance(error, EndpointError):
        return Code.L1_BLOCK
    if isinstance(error, ThrottledError) or error.retry_after or error.status == TOO_MANY_REQUESTS:
        return Code.L1_THROTTLED
    return tls_code(words) or Code.L1_UNREACHABLE
