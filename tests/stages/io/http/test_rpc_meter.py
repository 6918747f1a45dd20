"""The counters of a client of JSON-RPC or of the Beacon API."""

from rollup_node.stages.io.http.rpc_meter import RpcMeter
from rollup_node.stages.io.metrics.meter import Meter


def test_what_a_client_counts() -> None:
    meter = Meter("engine")
    calls = RpcMeter(meter, "engine-api")
    calls.sent("eth_x")
    calls.exchanged("eth_x", 40, 500)
    calls.ended("eth_x", 0.02)
    calls.sent("eth_x")
    calls.ended("eth_x", 0.02, "rpc_-32000")
    calls.notified("eth_subscription")
    lines = meter.text().decode().splitlines()
    labels = 'method="eth_x",rpc="engine-api"'
    for line in (
        f"rpc_client_requests_total{{{labels}}} 2.0",
        f'rpc_client_responses_total{{error="<nil>",{labels}}} 1.0',
        f'rpc_client_responses_total{{error="rpc_-32000",{labels}}} 1.0',
        f"rpc_client_request_duration_seconds_count{{{labels}}} 2.0",
        f"rpc_client_params_size_total{{{labels}}} 40.0",
        f"rpc_client_results_size_total{{{labels}}} 500.0",
        'rpc_client_notifications_received_total{method="eth_subscription",rpc="engine-api"} 1.0',
    ):
        assert f"op_node_default_{line}" in lines


def test_without_a_meter_nothing_is_counted() -> None:
    calls = RpcMeter(None, "engine-api")
    calls.sent("eth_x")
    calls.exchanged("eth_x", 1, 1)
    calls.ended("eth_x", 0.1)
    calls.notified("x")
