"""Spans as OTLP in JSON, and a collector that takes them, or does not."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rollup_node.stages.io import tracing
from rollup_node.stages.io.otlp import MAX_BATCH, SpanExporter, traces_json
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.io.tracing import Span, Trace
from tests.support.servers.http_listener import app_for_every_path, listening

SPAN = Span(Trace(b"\x11" * 16, b"\x22" * 8), b"\x33" * 8, "l1.block", 1, 2, {"number": 7, "outcome": "a", "ok": True})
CALL = Span(Trace(b"\x11" * 16), b"\x33" * 8, "rpc a", 1, 2, {})


def test_the_json_is_that_of_the_protocol() -> None:
    (resource,) = json.loads(traces_json([SPAN, CALL], {"service.name": "rollup-node"}))["resourceSpans"]
    assert resource["resource"] == {"attributes": [{"key": "service.name", "value": {"stringValue": "rollup-node"}}]}
    (scope,) = resource["scopeSpans"]
    first, second = scope["spans"]
    assert first == {
        "traceId": "11" * 16,
        "spanId": "33" * 8,
        "parentSpanId": "22" * 8,
        "name": "l1.block",
        "kind": 1,
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [
            {"key": "number", "value": {"intValue": "7"}},
            {"key": "outcome", "value": {"stringValue": "a"}},
            {"key": "ok", "value": {"boolValue": True}},
        ],
    }
    assert "parentSpanId" not in second and second["kind"] == 2


class Collector:
    """A server that takes spans, answers with another status, or with 0 closes the connection."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.status = 200

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((request.path, await request.json()))
        if not self.status and request.transport is not None:
            request.transport.abort()
        return web.json_response({}, status=self.status or 200)


@asynccontextmanager
async def exporting(collector: Collector, path: str = "") -> AsyncIterator[SpanExporter]:
    async with listening(app_for_every_path(collector.handle)) as (url,):
        tracing.enable(bytes(8))
        exporter = SpanExporter(url.rstrip("/") + path, "l1", "901", Path("/run/a"))
        running = asyncio.create_task(exporter.run())
        await asyncio.sleep(0)
        try:
            yield exporter
        finally:
            await cancel_all([running])
    assert tracing.take(1) == []


@pytest.mark.parametrize(("path", "asked"), [("", "/v1/traces"), ("/", "/v1/traces"), ("/custom", "/custom")])
async def test_spans_are_sent_in_bounded_requests(path: str, asked: str) -> None:
    collector = Collector()
    async with exporting(collector, path) as exporter:
        for number in range(MAX_BATCH + 1):
            tracing.add("a", 0.0, bytes(32), number=number)
        await exporter.send()
        assert [request for request, _ in collector.requests] == [asked, asked]
        sent = [body["resourceSpans"][0]["scopeSpans"][0]["spans"] for _, body in collector.requests]
        assert list(map(len, sent)) == [MAX_BATCH, 1]
        pairs = collector.requests[0][1]["resourceSpans"][0]["resource"]["attributes"]
        resource = {pair["key"]: pair["value"]["stringValue"] for pair in pairs}
        assert (resource["service.name"], resource["process"], resource["chain"]) == ("rollup-node", "l1", "901")
        assert len(resource["service.instance.id"]) == 16


async def test_what_a_collector_does_not_take_is_dropped() -> None:
    collector = Collector()
    async with exporting(collector) as exporter:
        for status in (503, 0, 200):
            collector.status = status
            tracing.add("a", 0.0, bytes(32))
            await exporter.send()
            assert tracing.take(1) == []
