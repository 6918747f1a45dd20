"""Each failure of a call of the engine has a code."""

import pytest

from rollup_node.stages.engine.calls.io.failures import code_of
from rollup_node.stages.io.http.endpoint_errors import NO_TLS, EndpointError, NoAnswerError
from rollup_node.stages.io.http.jsonrpc import RpcFailure
from rollup_node.stages.messages.codes import Code


@pytest.mark.parametrize(
    "failure, code",
    [
        (EndpointError("l2", "cannot connect"), Code.ENGINE_UNREACHABLE),
        (NoAnswerError("l2", 10.0), Code.ENGINE_SLOW),
        (EndpointError("l2", "HTTP status 401: signature is invalid", 401), Code.ENGINE_AUTH),
        (EndpointError("l2", "HTTP status 401: stale token", 401), Code.ENGINE_CLOCK),
        (EndpointError("l2", "HTTP status 403: invalid host specified", 403), Code.ENGINE_VHOST),
        (EndpointError("l2", f"TLS: {NO_TLS}"), Code.TLS_PORT),
        (RpcFailure(-32000, "missing jwt token"), Code.ENGINE_AUTH),
        (RpcFailure(-32601, "the method engine_forkchoiceUpdatedV3 does not exist"), Code.ENGINE_PUBLIC_PORT),
        (RpcFailure(-32000, "database is down"), Code.ENGINE_ANSWER),
    ],
    ids=str,
)
def test_the_code_of_a_failure(failure: EndpointError | RpcFailure, code: Code) -> None:
    assert code_of(failure) is code
