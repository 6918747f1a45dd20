"""The server of the status page: what it serves, to whom, and how long."""

import asyncio
import hashlib
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import orjson
import pytest
from aiohttp import ClientSession

from rollup_node.stages.rpc.process import status_server
from rollup_node.stages.rpc.process.stage import STATUS_LIMITS
from rollup_node.stages.rpc.process.status_server import FOLDER, MAX_VIEWERS, StatusServer, content_security_policy
from rollup_node.stages.rpc.status.node_status import NodeStatus
from tests.support.rpc.harness import running_listener
from tests.support.rpc.node_statuses import UNKNOWN
from tests.support.rpc.supernode import CHAINS, running_supernode
from tests.support.timing.conditions import until


class Counter:
    """Statuses with rising times."""

    def __init__(self, padding: str = "") -> None:
        self.made, self._padding = 0, padding

    def status(self) -> NodeStatus:
        return msgspec.structs.replace(UNKNOWN, time=float(self.made), version=self._padding)

    def json(self) -> bytes:
        self.made += 1
        return msgspec.json.encode(self.status())


class Served:
    """A running server."""

    def __init__(self, http: ClientSession, server: StatusServer, port: int) -> None:
        self.http, self.server, self.port = http, server, port

    async def get(self, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.http.get(url, headers=headers, allow_redirects=False) as response:
            return response.status, await response.read(), {k.lower(): v for k, v in response.headers.items()}

    async def viewers(self, count: int) -> None:
        """Wait until there are so many."""
        await until(lambda: self.server.viewers == count)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a viewer whose response has begun."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        writer.write(b"GET /status/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer


@asynccontextmanager
async def running_server(*vhosts: str, statuses: Counter | None = None) -> AsyncIterator[Served]:
    server = StatusServer(statuses or Counter(), vhosts)
    async with running_listener(server.handle, STATUS_LIMITS) as listener, ClientSession() as http:
        yield Served(http, server, listener.port)
        await server.close()


async def test_the_page_loads_nothing_from_elsewhere() -> None:
    """[RPC95] A web page whose name points here reads nothing, also if the RPC server takes any name."""
    async with running_server("*", "node.internal") as served:
        status, page, headers = await served.get("/status")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page == (FOLDER / "status.html").read_bytes()
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
        assert "unsafe" not in policy and "http" not in policy and "frame-ancestors 'none'" in policy
        loaded = re.findall(rb'(?:src|href)="([^"]*)"', page)
        assert loaded == [b"data:,", b"status/uplot.css", b"status.json", b"status.json", b"status/uplot.js"]
        assert not re.search(rb"\sstyle=|\son[a-z]+=|innerHTML|javascript:", page)
        for path, kind in (("/status/uplot.js", "text/javascript"), ("/status/uplot.css", "text/css")):
            status, body, headers = await served.get(path)
            assert (status, headers["content-type"]) == (200, f"{kind}; charset=utf-8")
            assert body == (FOLDER / path.rpartition("/")[2]).read_bytes()
            assert headers["x-content-type-options"] == "nosniff" and headers["server"] == "rollup-node"
        for path, location in (("/", "status"), ("/status/", "../status")):
            status, _, headers = await served.get(path)
            assert (status, headers["location"]) == (302, location)
        for path in ("/status/status.html", "/status/../status.html", "/metrics", "/status/uplot.json"):
            assert (await served.get(path))[0] == 404
        async with served.http.post(f"http://127.0.0.1:{served.port}/status", data=b"x") as response:
            assert response.status == 405
        for host, status in (("localhost:7", 200), ("127.0.0.1", 200), ("node.internal", 200), ("evil.example", 403)):
            for path in ("/status", "/status.json"):
                assert (await served.get(path, Host=host))[0] == status


async def test_a_viewer_gets_the_history_and_then_each_second_a_status() -> None:
    """[RPC95]"""
    async with running_server() as served:
        await served.server.periodic_task.step()
        reader, writer = await served.connect()
        await served.viewers(1)
        events: list[tuple[str, dict[str, object]]] = []
        while len(events) < 3:
            line = (await reader.readline()).decode().strip()
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
                data = (await reader.readline()).decode().removeprefix("data: ")
                events.append((name, orjson.loads(data)))
        assert [name for name, _ in events] == ["history", "status", "status"]
        heads = {name: [None] for name in ("l1_head", "unsafe", "safe", "finalized")}
        assert events[0][1] == {"step_s": 10.0, "time": [0], **heads}
        assert [event["time"] for _, event in events[1:]] == [1.0, 2.0]
        writer.close()
        await served.viewers(0)


async def test_more_viewers_than_allowed_are_refused() -> None:
    async with running_server() as served:
        writers = [(await served.connect())[1] for _ in range(MAX_VIEWERS)]
        await served.viewers(MAX_VIEWERS)
        status, body, _ = await served.get("/status/events")
        assert (status, body) == (503, b"8 viewers are connected already\n")
        assert (await served.get("/status.json"))[0] == 200
        writers.pop().close()
        await served.viewers(MAX_VIEWERS - 1)
        writers.append((await served.connect())[1])
        await served.viewers(MAX_VIEWERS)
        await served.server.close()
        await served.viewers(0)
        for writer in writers:
            writer.close()


async def test_viewers_that_do_not_read_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the buffers of the kernel have taken more than a minute of events, 6 kB each [RPC95]."""
    monkeypatch.setattr(status_server, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(status_server, "EVENT_SECONDS", 0.01)
    statuses = Counter("x" * 6_000)
    async with running_server(statuses=statuses) as served, AsyncExitStack() as stack:
        for _ in range(MAX_VIEWERS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            client.sendall(b"GET /status/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await served.viewers(MAX_VIEWERS)
        await served.viewers(0)
        assert statuses.made < 60 * MAX_VIEWERS


def test_the_policy_names_each_script_and_style_of_the_page() -> None:
    policy = content_security_policy('<style>a</style><script src="x"></script><script>b</script><script>c</script>')
    assert policy.count("'sha256-") == 3
    assert "'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='" in policy, "the digest of `a`"


def test_the_vendored_library_is_the_one_that_is_named() -> None:
    """Its version, licence and digests stand beside it."""
    named = orjson.loads((FOLDER / "uplot.json").read_text())
    for name, digest in named["sha256"].items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
    assert f"uPlot (v{named['version']})" in (FOLDER / "uplot.js").read_text()[:100]
    assert "MIT License" in Path(FOLDER / "uplot-license.txt").read_text()


async def test_the_status_page_has_a_row_for_each_chain(tmp_path: Path) -> None:
    """[SNO12]"""
    async with running_supernode(tmp_path, status_enabled=True, status_addr="127.0.0.1") as supernode:
        supernode.url = supernode.stage.servers["status"].local_url
        for path in ("/", "/status"):
            status, text = await supernode.get(path)
            assert status == 200 and b"2 of 2 chains are ready" in text
            assert text.count(b'<td class="number">20<td class="number">20<td class="number">3<td>ready') == 1
            assert b"http-equiv" not in text, "a page that loads itself again is not accessible"
            assert all(f'href="/{chain}/status"'.encode() in text for chain in CHAINS)
        for path in ("/901/status", "/902/status/uplot.js"):
            assert (await supernode.get(path))[0] == 200
        assert (await supernode.get("/903/status"))[0] == 404
        assert list(orjson.loads((await supernode.get("/status.json"))[1])["chains"]) == ["901", "902"]
