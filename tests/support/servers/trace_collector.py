"""A collector of traces by OTLP over HTTP."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from tests.support.servers.http_listener import app_for_every_path, listening
from tests.support.servers.threads import in_thread

Spans = list[dict[str, Any]]


class TraceCollector:
    """Keeps spans by trace, each with the process that made it."""

    def __init__(self) -> None:
        self.url = ""
        self._traces = defaultdict[str, Spans](list)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/v1/traces"
        for part in (await request.json())["resourceSpans"]:
            values = {pair["key"]: pair["value"] for pair in part["resource"]["attributes"]}
            where = {key: values[key]["stringValue"] for key in ("process", "chain", "service.instance.id")}
            for span in part["scopeSpans"][0]["spans"]:
                self._traces[span["traceId"]].append({**span, **where})
        return web.json_response({})

    @property
    def traces(self) -> list[Spans]:
        """Return the spans of each trace so far."""
        return [list(spans) for spans in list(self._traces.values())]

    @contextmanager
    def running(self) -> Iterator["TraceCollector"]:
        """Serve in a thread; `url` says where."""
        with in_thread(listening(app_for_every_path(self._take))) as (self.url,):
            yield self
