"""What is remembered of an endpoint's answers."""

import pytest

from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.endpoint_record import EndpointRecord, is_throttled
from rollup_node.stages.io.http.json_answers import RpcFailure
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.endpoints import MAX_ERROR, EndpointCounts


def test_requests_errors_and_the_last_failure() -> None:
    """[RPC94]"""
    now = 1000.0
    record = EndpointRecord("l1", "host:1", lambda: now)
    assert record.counts(False) == EndpointCounts("l1", "host:1", False, 0, 0, 0, None, False, "", 0, 0)
    record.answered(0.016, calls=20)
    record.answered(0.032)
    record.failed(EndpointError("host:1", "HTTP status 429", 429))
    assert record.counts(True) == EndpointCounts(
        "l1", "host:1", True, 22, 1, 1, 17.0, True, "HTTP status 429", 1000, 1000
    )
    now = 1005.0
    record.failed(EndpointError("host:1", "gone\n" + "x" * 1000))
    found = record.counts(True)
    assert (found.errors, found.throttled, found.error_at, found.throttled_at) == (2, 1, 1005, 1000)
    assert found.error.startswith("gone") and len(found.error) == MAX_ERROR and "\n" not in found.error
    record.answered(0.01)
    assert not record.counts(True).failing
    assert record.counts(False, "is\nbehind").verdict == "is behind"


def test_calls_and_refusals_are_metrics_from_zero() -> None:
    """[MET28]"""
    meter = Meter("l1")
    record = EndpointRecord("l1", "host:1", meter=meter)
    assert b'endpoint_calls_total{endpoint="host:1",rpc="l1"} 0.0' in meter.text()
    record.answered(0.016, calls=20)
    record.failed(EndpointError("host:1", "HTTP status 429", 429), 2)
    record.failed(EndpointError("host:1", "gone"))
    assert b'endpoint_calls_total{endpoint="host:1",rpc="l1"} 23.0' in meter.text()
    assert b'endpoint_throttled_total{endpoint="host:1",rpc="l1"} 1.0' in meter.text()


@pytest.mark.parametrize(
    ("error", "throttled"),
    [
        (EndpointError("e", "busy", 429), True),
        (EndpointError("e", "gone", 503), False),
        (RpcFailure(-32005, "limit exceeded"), True),
        (RpcFailure(429, "too many"), True),
        (RpcFailure(-32000, "boom"), False),
        (ValueError("429"), False),
    ],
)
def test_what_is_a_rate_limit(error: Exception, throttled: bool) -> None:
    assert is_throttled(error) is throttled
