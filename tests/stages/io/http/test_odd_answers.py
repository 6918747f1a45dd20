"""Answers as the world sends them: one table for every client of the node and its commands, also through proxies.

Rules LHD28, LHD29 and LHD31."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rollup_node.node.checks.beacon import BeaconReader
from rollup_node.node.checks.execution import is_execution_node
from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.blobs.process.client import BeaconEndpoint
from rollup_node.stages.blobs.process.da_client import DaClient
from rollup_node.stages.engine.calls.engine_api import GetBlock
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.io.http import client as http_client
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.blobs import InputResponse
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.p2p.signer.io.remote_signer import RemoteSigner
from rollup_node.stages.protocol.commitments import keccak_commitment
from rollup_node.tools.commands.explain import _fetch_drops
from rollup_node.tools.inspect.l2_source import EngineSource
from rollup_node.tools.inspect.status_screen import StatusClient
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.servers.raw_http import Server, Tls, behind_proxy, odd_answers, over_both, url_of

DATA = b"frames" * 10


async def answer_of(client: Any, ask: Callable[[Any], Awaitable[Any]]) -> Any:
    try:
        return await ask(client)
    finally:
        await client.close()


async def input_of_da(client: DaClient) -> Any:
    answer = await client.get(keccak_commitment(DATA))
    return answer.data if isinstance(answer, InputResponse) else answer


async def status(url: str) -> Any:
    async with StatusClient(url) as client:
        return await client._get()


def beacon(url: str) -> BeaconEndpoint:
    return BeaconEndpoint(url, BlobsConfig(url), {}, Meter("blobs"), asyncio.Lock())


RESULT = b'{"jsonrpc":"2.0","id":1,"result":"0xaa"}'
NOTHING = b'{"jsonrpc":"2.0","id":1,"result":null}'
GENESIS = b'{"data":{"genesis_time":"7"}}'
DROPS = b'{"jsonrpc":"2.0","id":1,"result":{"total":0,"drops":[]}}'
ENGINE = bytes(32), 20.0, PLAIN_ROLLUP
CLIENTS: dict[str, tuple[Callable[[str], Awaitable[Any]], bytes, Any]] = {
    "L1 and others": (lambda url: answer_of(JsonRpcClient(url), lambda client: client.call("eth_x")), RESULT, "0xaa"),
    "engine": (
        lambda url: answer_of(EngineClient(url, *ENGINE), lambda client: client.ask(GetBlock(5))),
        NOTHING,
        None,
    ),
    "signer": (
        lambda url: answer_of(RemoteSigner(SignerConfig(url, bytes(20), tls_enabled=False)), RemoteSigner.version),
        RESULT,
        "0xaa",
    ),
    "beacon": (lambda url: answer_of(beacon(url), BeaconEndpoint.genesis_time), GENESIS, 7),
    "check of beacon": (lambda url: BeaconReader(url, None, 20.0).get("eth/v1/beacon/genesis"), GENESIS, GENESIS),
    "check of swapped endpoints": (lambda url: is_execution_node(url, 20.0), RESULT, True),
    "DA server": (lambda url: answer_of(DaClient(DaServerConfig(url), Meter("blobs")), input_of_da), DATA, DATA),
    "status": (status, b"{}", b"{}"),
    "explain": (_fetch_drops, DROPS, (0, [])),
    "L2 source of replay": (
        lambda url: answer_of(EngineSource(url), lambda source: source.payload(5)),
        NOTHING,
        None,
    ),
}
NOT_OF_DA = {"another success", "gzip", "two members of gzip"}
"""op-node takes no other status; its DA client asks for no compression either."""


@pytest.mark.parametrize("name", CLIENTS)
async def test_odd_answers_that_go_takes_as_well(name: str) -> None:
    """[LHD28, LHD29]"""
    ask, body, expected = CLIENTS[name]
    for case, responses in odd_answers(body).items():
        if name != "DA server" or case not in NOT_OF_DA:
            async with url_of(Server(*responses)) as url:
                assert await ask(str(url.with_query(None).with_fragment(None))) == expected, case


@over_both
@pytest.mark.parametrize("name", CLIENTS)
async def test_they_come_through_a_proxy_as_well(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD31] Through that of the environment; never from the engine. The tests' authority is one of the system's."""
    monkeypatch.setattr(http_client, "_system_tls", lambda: Tls.client)
    ask, body, expected = CLIENTS[name]
    async with behind_proxy(Server(*odd_answers(body)["redirect"]), monkeypatch) as (url, proxy):
        address = str(url.with_query(None).with_fragment(None))
        if name == "engine":
            with pytest.raises(Exception, match="cannot connect"):
                await ask(address)
        else:
            assert await ask(address) == expected
        assert bool(proxy.heads) is (name != "engine")
