"""JSON-RPC over prepared results: single calls and batches, counted by method."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from rollup_node.stages.protocol.jsonrpc_codes import METHOD_NOT_FOUND
from rollup_node.tools.bench.race.http_server import Answer

Method = Callable[[list[Any]], bytes]
"""Gives the result of a call as JSON."""


class RpcMethods:
    """A table of methods. `requests` are those over HTTP, where a batch is one, `sizes` the bytes of the results by
    method; `variant` gives the name under which a call is counted."""

    def __init__(self, methods: Mapping[str, Method], variant: Callable[[str, list[Any]], str] | None = None) -> None:
        self._methods, self._variant = methods, variant
        self.requests = 0
        self.calls: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()

    def respond(self, _target: bytes, _head: bytes, body: bytes) -> Answer:
        """The answer to a request, whatever its path."""
        self.requests += 1
        try:
            asked = orjson.loads(body)
        except orjson.JSONDecodeError:
            return Answer([b"malformed body"], 400)
        if isinstance(asked, dict):
            return Answer(self._call(asked))
        parts: list[bytes] = [b"["]
        for index, call in enumerate(asked):
            if index:
                parts.append(b",")
            parts += self._call(call)
        parts.append(b"]")
        return Answer(parts)

    def _call(self, call: dict[str, Any]) -> list[bytes]:
        method, params = call["method"], call.get("params") or []
        head = b'{"jsonrpc":"2.0","id":' + orjson.dumps(call.get("id"))
        found = self._methods.get(method)
        name = method if self._variant is None else self._variant(method, params)
        self.calls[name] += 1
        if found is None:
            error = {"code": METHOD_NOT_FOUND, "message": f"the method {method} does not exist"}
            return [head, b',"error":', orjson.dumps(error), b"}"]
        result = found(params)
        self.sizes[name] += len(result)
        return [head, b',"result":', result, b"}"]
