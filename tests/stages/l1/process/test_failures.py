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
    "error, code",
    [
        (EndpointError("l1", "cannot connect"), Code.L1_UNREACHABLE),
        (EndpointError("l1", "HTTP status 401", 401), Code.L1_UNREACHABLE),
        (EndpointError("l1", "HTTP status 429", 429), Code.L1_THROTTLED),
        (EndpointError("l1", "HTTP status 503", 503, retry_after=3.0), Code.L1_THROTTLED),
        (ThrottledError("l1", "is overloaded"), Code.L1_THROTTLED),
        (RpcFailure(-32005, "daily request count exceeded"), Code.L1_THROTTLED),
        (RpcFailure(429, "exceeded its compute units per second capacity"), Code.L1_THROTTLED),
        (RpcFailure(-32000, "Too Many Requests"), Code.L1_THROTTLED),
        (RpcFailure(-32000, "missing trie node"), Code.L1_BLOCK),
        (InvalidDataError("the receipts root differs"), Code.L1_BLOCK),
        (OtherChainError("l1", "is on L1 chain 7, but the rollup is on 1"), Code.L1_CHAIN),
        (EndpointError("l1", f"TLS: {NO_TLS}"), Code.TLS_PORT),
        (EndpointError("l1", f"TLS: {BAD_CERTIFICATE}, expired"), Code.TLS_CERTIFICATE),
    ],
    ids=str,
)
def test_the_code_of_an_error(error: Exception, code: Code) -> None:
    assert code_of(error) is code


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (OtherChainError("x", "is on L1 chain 1"), EndpointFault.OTHER_CHAIN),
        (BehindError("no receipts yet"), EndpointFault.BEHIND),
        (InvalidDataError("a root differs"), EndpointFault.WRONG_DATA),
        (RpcFailure(-32005, "daily request count exceeded"), EndpointFault.THROTTLED),
        (RpcFailure(-32000, "Your app has exceeded its compute units per second"), EndpointFault.THROTTLED),
        (RpcFailure(-32000, "database is down"), EndpointFault.FAILING),
        (EndpointError("x", "HTTP status 429", 429), EndpointFault.THROTTLED),
        (EndpointError("x", "HTTP status 503", 503, retry_after=5.0), EndpointFault.THROTTLED),
        (EndpointError("x", "HTTP status 503", 503), EndpointFault.UNREACHABLE),
        (EndpointError("x", "timeout"), EndpointFault.UNREACHABLE),
    ],
)
def test_what_an_error_shows(error: Exception, fault: EndpointFault) -> None:
    assert fault_of(error) is fault
