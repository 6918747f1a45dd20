"""A plain client of an engine, which waits for each answer: it executes a course, and finds the limit of its calls.

As a program it takes a node's place in a race. It sends the three calls of each block of the course, one after another
as fast as the engine answers, from bodies that are ready before the first one.

    python -m rollup_node.tools.bench.race.plain_client ENGINE RPC_PORT COURSE"""

import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from rollup_node.stages.protocol.block_refs import BlockError, payload_from_block_json
from rollup_node.stages.protocol.engine_json import (
    PayloadError,
    attributes_to_json,
    envelope_from_json,
    payload_to_json,
)
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.jwt_token import authorization
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.http_server import message_body, message_end
from rollup_node.tools.bench.signed_blocks import SECRET

CALL_SECONDS, TOKEN_SECONDS = 60.0, 20.0
_HEAD = b"POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAuthorization: %s\r\nContent-Length: "


class EngineError(Exception):
    """An engine that gives no block; the text says what it answered."""


class PlainClient:
    """One connection to an engine, with the JWT secret of all courses."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), CALL_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host, self._head, self._renewal = parts.netloc.encode(), b"", 0.0

    def send(self, body: bytes) -> bytes:
        """Return the body of the answer to a request. Raises OSError, and EngineError where it has not status 200."""
        if time.monotonic() >= self._renewal:
            self._renewal = time.monotonic() + TOKEN_SECONDS
            self._head = _HEAD % (self._host, authorization(SECRET, time.time()).encode())
        self._socket.sendall(self._head + b"%d\r\n\r\n%s" % (len(body), body))
        received = b""
        while message_end(received) is None:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the engine has closed the connection")
            received += data
        if not received.startswith(b"HTTP/1.1 200 "):
            raise EngineError(f"the engine answers {received[:300]!r}")
        return message_body(received)

    def call(self, method: str, *params: Any) -> Any:
        """Return the result of a call. Raises EngineError for another answer, and what `send` raises."""
        answer = orjson.loads(self.send(request(method, orjson.dumps(params))))
        if answer.get("result") is None:
            raise EngineError(f"the engine answers {method} with {orjson.dumps(answer).decode()[:300]}")
        return answer["result"]

    def genesis(self) -> ExecutionPayload:
        """Return the engine's block 0; it has no other. Raises EngineError, and what `send` raises."""
        head = int(self.call("eth_getBlockByNumber", "latest", False)["number"], 16)
        if head:
            raise EngineError(
                f"the engine is at block {head}: a course begins with an engine that has its genesis alone"
            )
        try:
            return payload_from_block_json(self.call("eth_getBlockByNumber", "0x0", True))
        except BlockError as error:
            raise EngineError(f"the engine's genesis: {error}") from None

    def seal(self, parent: BlockId, attributes: PayloadAttributes) -> ExecutionPayload:
        """Return the block of attributes, which the engine has executed and taken.

        Raises EngineError, and what `send` raises."""
        name = to_hex(parent.hash)
        state = {f"{label}BlockHash": name for label in ("head", "safe", "finalized")}
        build = self.call("engine_forkchoiceUpdatedV3", state, attributes_to_json(attributes))
        if build["payloadId"] is None:
            raise EngineError(f"the engine starts no block on {parent}: {build['payloadStatus']}")
        try:
            payload = envelope_from_json(self.call("engine_getPayloadV3", build["payloadId"]))
        except PayloadError as error:
            raise EngineError(f"the engine's block on {parent}: {error}") from None
        root = to_hex(payload.parent_beacon_root or bytes(32))
        status = self.call("engine_newPayloadV3", payload_to_json(payload), [], root)
        if status["status"] != "VALID":
            raise EngineError(f"the engine does not take its own block {payload.block_number}: {status}")
        return payload

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def request(method: str, params: bytes) -> bytes:
    """Return the body of a request."""
    return b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}' % (method.encode(), params)


def replay(client: PlainClient, course: CourseFiles) -> None:
    """Send all calls of a course; the last makes its last block safe. Raises EngineError, and what `send` raises."""
    names, calls = course.facts.l2_hashes, []
    for number in range(1, len(names)):
        envelope = orjson.loads(course.body(f"l2/{number}/envelope"))
        params = orjson.dumps([envelope["executionPayload"], [], envelope["parentBeaconBlockRoot"]])
        attributes = course.body(f"l2/{number}/attributes")
        calls.append((_forkchoice(names[number - 1], attributes), request("engine_newPayloadV3", params)))
    for build, block in calls:
        answer = client.send(build)
        payload_id = orjson.loads(answer).get("result", {}).get("payloadId")
        if payload_id is None:
            raise EngineError(f"the engine starts no block: {answer[:300]!r}")
        client.send(request("engine_getPayloadV3", orjson.dumps([payload_id])))
        client.send(block)
    client.send(_forkchoice(names[-1], b"null"))


def _forkchoice(head: str, attributes: bytes) -> bytes:
    state = orjson.dumps({f"{label}BlockHash": head for label in ("head", "safe", "finalized")})
    return request("engine_forkchoiceUpdatedV3", b"[%s,%s]" % (state, attributes))


def serve_status(port: int, safe: Callable[[], str]) -> None:
    """Answer every JSON-RPC call with a sync status, and 404 to everything else."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": {"safe_l2": {"hash": safe()}}})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


def main(argv: Sequence[str] | None = None) -> int:
    """Send the calls, and serve the status until it is terminated."""
    engine, port, folder = sys.argv[1:] if argv is None else argv
    course = CourseFiles(Path(folder))
    client, safe = PlainClient(engine), [course.facts.l2_hashes[0]]
    threading.Thread(target=serve_status, args=(int(port), lambda: safe[0])).start()
    replay(client, course)
    status = client.call("eth_getBlockByNumber", "safe", False)
    safe[0] = status["hash"]
    return 0


if __name__ == "__main__":
    sys.exit(main())
