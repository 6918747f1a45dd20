"""A program that takes a node's place in a race: it inserts the whole course at once, then follows the L1 head.

python -m tests.support.servers.course_follower L1 ENGINE RPC_PORT COURSE
"""

import json
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from rollup_node.tools.bench.race.course_files import CourseFiles


def call(url: str, method: str, *params: Any) -> Any:
    """Return the result of a JSON-RPC call."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    with urllib.request.urlopen(url, body, timeout=20) as answer:
        return json.load(answer)["result"]


def serve_status(port: int, safe: str) -> None:
    """Answers every JSON-RPC call with a sync status, and 404 to everything else."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"safe_l2": {"hash": safe}}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(404)

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


def main() -> None:
    """Run until it is terminated."""
    l1, engine, port, folder = sys.argv[1:]
    course = CourseFiles(Path(folder))
    facts = course.facts
    for number in range(1, len(facts.l2_hashes)):
        envelope = json.loads(course.body(f"l2/{number}/envelope"))
        call(engine, "engine_newPayloadV4", envelope["executionPayload"], [], envelope["parentBeaconBlockRoot"], [])
    state = {f"{label}BlockHash": facts.last_safe for label in ("head", "safe", "finalized")}
    call(engine, "engine_forkchoiceUpdatedV3", state, None)
    while int(call(l1, "eth_getBlockByNumber", "latest", False)["number"], 16) < facts.l1_head:
        time.sleep(0.05)
    threading.Thread(target=serve_status, args=(int(port), facts.last_safe)).start()


if __name__ == "__main__":
    main()
