"""What is remembered and counted of an endpoint's answers."""

import pytest

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.endpoint_record import EndpointMeter, EndpointRecord, RpcMeter
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import MAX_ERROR, EndpointCounts


def test_requests_errors_and_the_last_failure() -> None:
    """[RPC94, MET28] Calls and refusals are metrics from zero."""
    now, meter = 1000.0, Meter("l1")
    record = EndpointRecord("l1", "host:1", lambda: now, meter=meter)
    assert b'endpoint_calls_total{endpoint="host:1",rpc="l1"} 0.0' in meter.text()
    assert record.counts(False) == EndpointCounts("l1", "host:1", False, 0, 0, 0, None, False, "", 0, 0)
    record.answered(0.016, calls=20)
    record.answered(0.032)
    record.failed(EndpointError("host:1", "HTTP status 429", 429))
    assert record.counts(True) == EndpointCounts(
        "l1", "host:1", True, 22, 1, 1, 17.0, True, "HTTP status 429", 1000, 1000
    )
    now = 1005.0
    record.failed(EndpointError("host:1", "gone\n" + "x" * 1000))
    result = record.counts(True)
    assert (result.errors, result.throttled, result.error_at, result.throttled_at) == (2, 1, 1005, 1000)
    assert result.error.startswith("gone") and len(result.error) == MAX_ERROR and "\n" not in result.error
    record.answered(0.01)
    assert not record.counts(True).failing
    assert record.counts(False, "is\nbehind").verdict == "is behind"
    assert b'endpoint_calls_total{endpoint="host:1",rpc="l1"} 24.0' in meter.text()
    assert b'endpoint_throttled_total{endpoint="host:1",rpc="l1"} 1.0' in meter.text()


def test_the_first_endpoint_is_in_use_until_another_is() -> None:
    meter = Meter("l1")
    EndpointMeter(meter, "l1", ["a:1", "b:2", "a:1"], [])
    for name, in_use in (("a:1", 1.0), ("b:2", 0.0)):
        assert f'endpoint_in_use{{endpoint="{name}",rpc="l1"}} {in_use}' in meter.text().decode()


def test_what_a_client_counts() -> None:
    meter = Meter("engine")
    calls = RpcMeter(meter, "engine-api")
    with calls.timed("eth_x"):
        pass
    calls.exchanged("eth_x", 40, 500)
    errors = RpcFailure(-32000, "no"), EndpointError("e", "busy", 503), EndpointError("e", "gone"), KeyError()
    for error in errors:
        with pytest.raises(type(error)), calls.timed("eth_x"):
            raise error
    calls.notified("eth_subscription")
    lines = meter.text().decode().splitlines()
    labels = 'method="eth_x",rpc="engine-api"'
    for line in (
        f"rpc_client_requests_total{{{labels}}} 5.0",
        f'rpc_client_responses_total{{error="<nil>",{labels}}} 1.0',
        f'rpc_client_responses_total{{error="rpc_-32000",{labels}}} 1.0',
        f'rpc_client_responses_total{{error="http_503",{labels}}} 1.0',
        f'rpc_client_responses_total{{error="<unknown>",{labels}}} 2.0',
        f"rpc_client_request_duration_seconds_count{{{labels}}} 5.0",
        f"rpc_client_params_size_total{{{labels}}} 40.0",
        f"rpc_client_results_size_total{{{labels}}} 500.0",
        'rpc_client_notifications_received_total{method="eth_subscription",rpc="engine-api"} 1.0',
    ):
        assert f"op_node_default_{line}" in lines
