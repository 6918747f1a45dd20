"""Sends spans to an OpenTelemetry collector: OTLP over HTTP in JSON [TRC1].

Source: opentelemetry-proto 1.x, trace/v1/trace.proto and docs/specification.md (JSON Protobuf encoding)."""

import asyncio
import hashlib
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from rollup_node.stages.io import tracing
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.endpoint_errors import EndpointError, endpoint_name, parsed_url
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.tracing import Span, Value
from rollup_node.stages.messages.codes import Code

SECONDS = 2.0
MAX_BATCH = 512
TIMEOUT = 5.0
MAX_ANSWER = 64 << 10
PATH = "/v1/traces"
_INTERNAL, _SERVER = 1, 2
"""Kinds of spans."""

log = Logger("tracing")


def traces_json(spans: Sequence[Span], resource: Mapping[str, Value]) -> bytes:
    """Return an ExportTraceServiceRequest with the spans of one process."""
    scope = {"scope": {"name": "rollup-node"}, "spans": [_span(span) for span in spans]}
    return orjson.dumps({"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]})


def _span(span: Span) -> dict[str, Any]:
    assert span.trace is not None
    parent = {"parentSpanId": span.trace.parent.hex()} if span.trace.parent else {}
    return {
        "traceId": span.trace.id.hex(),
        "spanId": span.id.hex(),
        **parent,
        "name": span.name,
        "kind": _SERVER if span.name.startswith("rpc ") else _INTERNAL,
        # Numbers of 64 bits are texts in JSON.
        "startTimeUnixNano": str(span.began),
        "endTimeUnixNano": str(span.ended),
        "attributes": _attributes(span.attributes),
    }


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


class SpanExporter:
    """Sends the spans of this process to a collector; what it does not take is dropped.

    `folder` is that of the runtime directory, which tells the nodes of a machine apart."""

    def __init__(self, endpoint: str, process: str, chain: str, folder: Path) -> None:
        url = parsed_url(endpoint)
        assert url is not None
        self._name = endpoint_name(endpoint)
        self._http = HttpClient(url if url.path.strip("/") else url.with_path(PATH), self._name)
        host = socket.gethostname()
        self._node = hashlib.blake2b(f"{host}:{folder}".encode(), digest_size=8).digest()
        self._resource: Mapping[str, Value] = {
            "service.name": "rollup-node",
            "service.instance.id": self._node.hex(),
            "host.name": host,
            "process": process,
            "chain": chain,
        }
        self._condition = LastingCondition(log)

    async def run(self) -> None:
        """Record and send until cancelled."""
        tracing.enable(self._node)
        try:
            while True:
                await asyncio.sleep(SECONDS)
                await self.send()
        finally:
            tracing.disable()
            await self._http.close()

    async def send(self) -> None:
        """Send what there is, in requests of at most MAX_BATCH spans, until one fails."""
        while spans := tracing.take(MAX_BATCH):
            try:
                answer = await self._http.post(traces_json(spans, self._resource), TIMEOUT, MAX_ANSWER)
            except EndpointError as error:
                self._failed(str(error), len(spans))
                return
            if not 200 <= answer.status < 300:
                self._failed(f"HTTP {answer.status}", len(spans))
                return
            self._condition.end("the collector takes spans again", collector=self._name)

    def _failed(self, why: str, dropped: int) -> None:
        self._condition.report(Code.TRACES, "spans are dropped", collector=self._name, error=why, dropped=dropped)
