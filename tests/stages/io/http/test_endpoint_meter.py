"""Which endpoint is in use, and what was wrong with each."""

from rollup_node.stages.io.http.endpoint_meter import EndpointMeter
from rollup_node.stages.io.metrics.meter import Meter


def test_use_and_faults() -> None:
    meter = Meter("l1")
    endpoints = EndpointMeter(meter, "l1", ["a:1", "b:2", "a:1"], ["throttled", "behind"])
    name = "op_node_default_endpoint"

    def shown() -> list[str]:
        return meter.text().decode().splitlines()

    for fault in ("throttled", "behind"):
        for endpoint in ("a:1", "b:2"):
            assert f'{name}_failures_total{{endpoint="{endpoint}",fault="{fault}",rpc="l1"}} 0.0' in shown()
    assert f'{name}_in_use{{endpoint="a:1",rpc="l1"}} 1.0' in shown()
    endpoints.failed("a:1", "behind")
    endpoints.set_usable("a:1", False)
    endpoints.use("b:2")
    assert f'{name}_failures_total{{endpoint="a:1",fault="behind",rpc="l1"}} 1.0' in shown()
    assert f'{name}_usable{{endpoint="a:1",rpc="l1"}} 0.0' in shown()
    assert f'{name}_in_use{{endpoint="a:1",rpc="l1"}} 0.0' in shown()
    assert f'{name}_in_use{{endpoint="b:2",rpc="l1"}} 1.0' in shown()


def test_no_endpoints() -> None:
    meter = Meter("blobs")
    EndpointMeter(meter, "beacon", [], ["throttled"])
    assert b"endpoint_in_use{" not in meter.text()
