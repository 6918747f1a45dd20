"""Each error of an L1 endpoint has a code."""

import pytest

from rollup_node.stages.io.http.endpoint_errors import BAD_CERTIFICATE, NO_TLS
from rollup_node.stages.io.http.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.process.failures import BehindError, OtherChainError, ThrottledError, code_of, fault_of
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.codes import Code


@pytest.mark.condition("C3")
@pytest.mark.parametrize(
    ("error", "code", "fault"),
    [
        (EndpointError("l1", "cannot connect"), Code.L1_UNREACHABLE, EndpointFault.UNREACHABLE),
        (EndpointError("l1", "HTTP status 401", 401), Code.L1_UNREACHABLE, EndpointFault.UNREACHABLE),
        (EndpointError("l1", "HTTP status 503", 503), Code.L1_UNREACHABLE, EndpointFault.UNREACHABLE),
        (EndpointError("l1", "HTTP status 429", 429), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (EndpointError("l1", "HTTP status 503", 503, retry_after=3.0), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (ThrottledError("l1", "is overloaded"), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (RpcFailure(-32005, "daily request count exceeded"), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (RpcFailure(429, "exceeded its compute units per second"), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (
            RpcFailure(-32000, "Your app has exceeded its compute units per second"),
            Code.L1_THROTTLED,
            EndpointFault.THROTTLED,
        ),
        (RpcFailure(-32000, "Too Many Requests"), Code.L1_THROTTLED, EndpointFault.THROTTLED),
        (RpcFailure(-32000, "database is down"), Code.L1_BLOCK, EndpointFault.FAILING),
        (RpcFailure(-32000, "missing trie node"), Code.L1_BLOCK, EndpointFault.FAILING),
        (InvalidDataError("the receipts root differs"), Code.L1_BLOCK, EndpointFault.WRONG_DATA),
        (BehindError("no receipts yet"), Code.L1_BLOCK, EndpointFault.BEHIND),
        (OtherChainError("l1", "is on L1 chain 7, the rollup on 1"), Code.L1_CHAIN, EndpointFault.OTHER_CHAIN),
        (EndpointError("l1", f"TLS: {NO_TLS}"), Code.TLS_PORT, EndpointFault.UNREACHABLE),
        (EndpointError("l1", f"TLS: {BAD_CERTIFICATE}, expired"), Code.TLS_CERTIFICATE, EndpointFault.UNREACHABLE),
    ],
    ids=str,
)
def test_the_code_of_an_error(error: Exception, code: Code, fault: EndpointFault) -> None:
    """And what it shows of the endpoint."""
    assert code_of(error) is code and fault_of(error) is fault
