"""The fault of an L1 endpoint that an error shows."""

import pytest

from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.l1.endpoint_pool import Fault
from rollup_node.stages.l1.process.endpoint_faults import BehindError, WrongChainError, fault_of
from rollup_node.stages.l1.verify import InvalidDataError


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (WrongChainError("x", "is on L1 chain 1"), Fault.OTHER_CHAIN),
        (BehindError("no receipts yet"), Fault.BEHIND),
        (InvalidDataError("a root differs"), Fault.WRONG_DATA),
        (RpcFailure(-32005, "daily request count exceeded"), Fault.THROTTLED),
        (RpcFailure(-32000, "Your app has exceeded its compute units per second"), Fault.THROTTLED),
        (RpcFailure(-32000, "database is down"), Fault.FAILING),
        (EndpointError("x", "HTTP status 429", 429), Fault.THROTTLED),
        (EndpointError("x", "HTTP status 503", 503, retry_after=5.0), Fault.THROTTLED),
        (EndpointError("x", "HTTP status 503", 503), Fault.UNREACHABLE),
        (EndpointError("x", "timeout"), Fault.UNREACHABLE),
    ],
)
def test_what_an_error_shows(error: Exception, fault: Fault) -> None:
    assert fault_of(error) is fault
