"""Why an L1 endpoint does not do what is asked: as a code for people, and as a fault of the endpoint [LHD26]."""

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure, is_throttled, tls_code
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.codes import Code


class ThrottledError(EndpointError):
    """The endpoint asked to be left alone for a while."""


class OtherChainError(EndpointError):
    """The endpoint is of another chain than the rollup's L1."""


class BehindError(InvalidDataError):
    """The endpoint does not have yet what belongs to a block that it has."""


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


def _is_throttled(error: Exception) -> bool:
    return isinstance(error, ThrottledError) or is_throttled(error)
