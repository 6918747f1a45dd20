"""The DA server of the local network with the node's client, in every mode."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import pytest

from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.blobs.process.da_client import DaClient, InputNotFoundError
from rollup_node.stages.io.http.jsonrpc import EndpointError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.blobs import InputResponse
from rollup_node.stages.protocol.commitments import Commitment, keccak_commitment
from rollup_node.tools.devnet import da_server
from rollup_node.tools.devnet.da_server import LIES, DaServer
from rollup_node.tools.devnet.settings import DA_MODES
from tests.support.servers.http_listener import listening

T = TypeVar("T")
DATA = [b"input %d " % index * 50 for index in range(20)]
COMMITMENTS = [keccak_commitment(data) for data in DATA]


@asynccontextmanager
async def play(mode: str) -> AsyncIterator[tuple[DaClient, aiohttp.ClientSession, str]]:
    async with listening(DaServer(mode).application()) as (url,), aiohttp.ClientSession() as session:
        client = DaClient(DaServerConfig(url), Meter("blobs"))
        try:
            yield client, session, url
        finally:
            await client.close()


async def put(session: aiohttp.ClientSession, url: str, data: bytes, commitment: Commitment) -> int:
    async with session.post(f"{url}/put/0x{commitment.encode().hex()}", data=data) as response:
        return response.status


async def found(client: DaClient, commitment: Commitment) -> bytes | None:
    """Return the input, None if it is not found."""
    try:
        answer = await client.get(commitment)
    except InputNotFoundError:
        return None
    assert isinstance(answer, InputResponse)
    return answer.data


async def test_an_honest_server() -> None:
    async with play("honest") as (client, session, url):
        assert await found(client, COMMITMENTS[0]) is None
        assert await put(session, url, DATA[0], COMMITMENTS[0]) == 200
        assert await found(client, COMMITMENTS[0]) == DATA[0]
        assert await put(session, url, DATA[0], COMMITMENTS[1]) == 400
        assert await put(session, url, b"", COMMITMENTS[1]) == 400
        async with session.post(f"{url}/put", data=DATA[1]) as response:
            assert await response.read() == COMMITMENTS[1].encode()
        assert await found(client, COMMITMENTS[1]) == DATA[1]
        for path in ("0x", "0x00", "0x05" + "00" * 32, "00"):
            async with session.get(f"{url}/get/{path}") as response:
                assert response.status == 400


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(da_server, "MAX_STORED", len(DATA[0]) * 2)
    async with play("honest") as (client, session, url):
        for index in (0, 1, 0, 2):
            await put(session, url, DATA[index], COMMITMENTS[index])
        assert [await found(client, commitment) is not None for commitment in COMMITMENTS[:3]] == [True, False, True]


async def test_a_lying_server_tells_the_truth_in_the_end() -> None:
    async with play("lying") as (client, session, url):
        await put(session, url, DATA[0], COMMITMENTS[0])
        for _ in range(LIES):
            with pytest.raises(EndpointError, match="do not match commitment"):
                await client.get(COMMITMENTS[0])
        assert await found(client, COMMITMENTS[0]) == DATA[0]


async def test_a_slow_server_sends_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(da_server, "SLOW_SECONDS", 0.2)
    async with play("slow") as (client, session, url):
        await put(session, url, DATA[0], COMMITMENTS[0])
        start = asyncio.get_running_loop().time()
        assert await found(client, COMMITMENTS[0]) == DATA[0]
        assert asyncio.get_running_loop().time() - start >= 0.15


@pytest.mark.parametrize("mode", ["losing", "withholding"])
async def test_a_server_that_loses_inputs_keeps_a_repeated_one_in_the_end(mode: str) -> None:
    async with play(mode) as (client, session, url):
        tries = [0] * len(DATA)
        for index, (data, commitment) in enumerate(zip(DATA, COMMITMENTS, strict=True)):
            while await found(client, commitment) is None:
                assert await put(session, url, data, commitment) == 200
                tries[index] += 1
        assert len(DATA) < sum(tries) < 3 * len(DATA)


def test_every_mode_is_one_of_the_flags() -> None:
    assert set(DA_MODES) == {"honest", "lying", "slow", "losing", "withholding"}
