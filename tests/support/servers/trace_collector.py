"""A collector of traces by OTLP over HTTP."""

import json
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Spans = list[dict[str, Any]]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, TraceCollector)
        self.server.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


class TraceCollector(ThreadingHTTPServer):
    """Keeps spans by trace, each with the process that made it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._lock, self._traces = threading.Lock(), defaultdict[str, Spans](list)
        self._thread = threading.Thread(target=self.serve_forever)

    def take(self, path: str, body: bytes) -> None:
        """Keep the spans of a request."""
        assert path == "/v1/traces"
        with self._lock:
            for part in json.loads(body)["resourceSpans"]:
                values = {pair["key"]: pair["value"] for pair in part["resource"]["attributes"]}
                where = {key: values[key]["stringValue"] for key in ("process", "chain", "service.instance.id")}
                for span in part["scopeSpans"][0]["spans"]:
                    self._traces[span["traceId"]].append({**span, **where})

    @property
    def traces(self) -> list[Spans]:
        """Return the spans of each trace so far."""
        with self._lock:
            return [list(spans) for spans in self._traces.values()]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
