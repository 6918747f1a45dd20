"""Checks of a beacon node."""

import gzip
import json
import re
from typing import Any

import pytest
from aiohttp import web

from rollup_node.node.checks.beacon import MAX_BODY, BeaconReader, check_beacon_node, is_beacon_node
from rollup_node.node.checks.finding import Finding, FindingLevel
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.preflight.light_client import beacon_version
from tests.support.servers.http_listener import app_for_every_path, listening

GENESIS = {"genesis_time": "1655733600"}
SEPOLIA = 11155111


class Server:
    """`answers` by the last part of the path: data, a status, or bytes."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.requests: list[web.Request] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        answer = self.answers.get(request.path.rpartition("/")[2], 404)
        if isinstance(answer, int):
            return web.Response(status=answer)
        if isinstance(answer, bytes):
            return web.Response(body=answer, headers={"Content-Encoding": "gzip"})
        return web.json_response({"data": answer})

    async def check(self, chain: int = SEPOLIA, more: str = "") -> list[Finding]:
        async with listening(app_for_every_path(self.handle)) as (url,):
            reader = BeaconReader(url.rstrip("/") + more, ("X-Key", "secret"), 20.0)
            return [*await check_beacon_node(reader, "beacon", chain), *await self.version(reader)]

    async def version(self, reader: BeaconReader) -> list[Finding]:
        result = await beacon_version(reader)
        return [] if result is None else [Finding(FindingLevel.OK, "version", result)]


async def test_a_beacon_node_of_the_chain() -> None:
    server = Server(genesis=GENESIS, deposit_contract={"chain_id": str(SEPOLIA)}, version={"version": "Teku\n1"})
    result, version = await server.check(more="/base/?apikey=k")
    assert result.level is FindingLevel.OK and version.text == "Teku 1"
    assert server.requests[0].path == "/base/eth/v1/beacon/genesis"
    assert all(request.query["apikey"] == "k" for request in server.requests)
    assert all(request.headers["X-Key"] == "secret" for request in server.requests)


async def test_an_archive_has_no_deposit_contract() -> None:
    assert [item.level for item in await Server(genesis=GENESIS).check()] == [FindingLevel.OK]


async def test_a_beacon_node_of_another_chain() -> None:
    server = Server(genesis={"genesis_time": "5"}, deposit_contract={"chain_id": 7})
    (result,) = await server.check(900)
    assert result.code is Code.BEACON_CHAIN
    assert re.search("on chain .*7.*, L1 is chain 900", result.text)


async def test_long_answers_are_refused() -> None:
    """Of which the compressed ones are as long as what they hold."""
    padding = " " * MAX_BODY
    body = gzip.compress(json.dumps({"data": GENESIS, "padding": padding}).encode())
    assert len(body) < 1000
    with pytest.raises(EndpointError, match=f"longer than {MAX_BODY} bytes"):
        await Server(genesis=body).check()


async def test_damaged_answers_are_refused() -> None:
    with pytest.raises(EndpointError, match="damaged"):
        await Server(genesis=b"no gzip").check()


async def test_what_a_beacon_node_is() -> None:
    servers = Server(genesis=GENESIS), Server(genesis=[1]), Server()
    async with listening(*(app_for_every_path(server.handle) for server in servers)) as urls:
        results = [await is_beacon_node(url, 20.0) for url in (*urls, "http://127.0.0.1:1")]
    assert results == [True, False, False, False]
