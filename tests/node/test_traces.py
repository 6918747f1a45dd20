"""A collector gets the way of an L1 block through all processes of a whole network, and calls to the RPC server."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rollup_node.node.options.table import OPTIONS
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program

WAY = {"l1.block": "l1", "blobs": "blobs", "derivation.block": "derivation"}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        self.server.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


class Collector(ThreadingHTTPServer):
    """Keeps spans by trace, each with the process that made it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.traces: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        for part in json.loads(body)["resourceSpans"]:
            values = {pair["key"]: pair["value"] for pair in part["resource"]["attributes"]}
            where = {key: values[key]["stringValue"] for key in ("process", "chain", "service.instance.id")}
            for span in part["scopeSpans"][0]["spans"]:
                self.traces[span["traceId"]].append({**span, **where})


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.option("tracing.otlp-endpoint")
def test_the_way_of_a_block_is_one_trace(collector: Collector, leftovers: Leftovers) -> None:
    """[TRC2]"""
    url = f"http://127.0.0.1:{collector.server_port}"
    words = ("devnet", "--blocks", "8")
    variable = OPTIONS["tracing.otlp-endpoint"].variable
    with Program(leftovers, "rollup_node", *words, **{variable: url}) as net:
        assert net.wait_for_exit(55.0).code == 0
    ways = [spans for spans in collector.traces.values() if WAY.keys() <= {span["name"] for span in spans}]
    assert ways
    for spans in ways:
        # Both nodes are there, each with a first span of its own.
        for node in {span["service.instance.id"] for span in spans}:
            own = [span for span in spans if span["service.instance.id"] == node]
            roots = {span["spanId"] for span in own if span["name"] == "l1.block"}
            assert {span.get("parentSpanId") for span in own if span["name"] != "l1.block"} <= roots or not roots
        assert {span["name"]: span["process"] for span in spans if span["name"] in WAY} == WAY
        assert {span["process"] for span in spans if span["name"].startswith("engine.")} <= {"engine"}
        assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans)
    assert any(span["name"].startswith("engine.") for spans in ways for span in spans)
    calls = [span for spans in collector.traces.values() for span in spans if span["name"].startswith("rpc ")]
    assert {span["process"] for span in calls} == {"rpc"} and {span["kind"] for span in calls} == {2}
    assert "rpc optimism_syncStatus" in {span["name"] for span in calls}
