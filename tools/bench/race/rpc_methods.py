"""JSON-RPC over prepared results: single calls and batches, counted by method."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND
from rollup_node.tools.bench.race.gzip_body import Prepared, gzipped
from rollup_node.tools.bench.race.http_server import Answer

Method = Callable[[list[Any]], bytes | Prepared]
"""Gives the result of a call as JSON."""

Parts = list[bytes | Prepared]


class RpcMethods:
    """A table of methods.

    `requests` are those over HTTP, where a batch is one, `sizes` the bytes of the results by method, as they are
    sent; `variant` gives the name under which a call is counted."""

    def __init__(self, methods: Mapping[str, Method], variant: Callable[[str, list[Any]], str] | None = None) -> None:
        self._methods, self._variant = methods, variant
        self.requests = 0
        self.calls: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()

    def respond(self, _target: bytes, head: bytes, body: bytes) -> Answer:
        """Return the answer to a request, whatever its path.

        In gzip if the client takes it and a result is prepared."""
        self.requests += 1
        try:
            asked = orjson.loads(body)
        except orjson.JSONDecodeError:
            return Answer([b"malformed body"], 400)
        compress = _takes_gzip(head)
        if isinstance(asked, dict):
            return _answer(self._call(asked, compress), compress)
        parts: Parts = [b"["]
        for index, call in enumerate(asked):
            if index:
                parts.append(b",")
            parts += self._call(call, compress)
        parts.append(b"]")
        return _answer(parts, compress)

    def _call(self, call: dict[str, Any], compress: bool) -> Parts:
        method, params = call["method"], call.get("params") or []
        head = b'{"jsonrpc":"2.0","id":' + orjson.dumps(call.get("id"))
        found = self._methods.get(method)
        name = method if self._variant is None else self._variant(method, params)
        self.calls[name] += 1
        if found is None:
            error = {"code": METHOD_NOT_FOUND, "message": f"the method {method} does not exist"}
            return [head, b',"error":', orjson.dumps(error), b"}"]
        result = found(params)
        sent = (result.deflated if compress else result.plain) if isinstance(result, Prepared) else result
        self.sizes[name] += len(sent)
        return [head + b',"result":', result, b"}"]


def _takes_gzip(head: bytes) -> bool:
    """Whether a head in small letters says so."""
    return any(b"gzip" in line for line in head.split(b"\r\n") if line.startswith(b"accept-encoding:"))


def _answer(parts: Parts, compress: bool) -> Answer:
    if compress and any(isinstance(part, Prepared) for part in parts):
        return Answer(gzipped(parts), encoding=b"gzip")
    return Answer([part.plain if isinstance(part, Prepared) else part for part in parts])
