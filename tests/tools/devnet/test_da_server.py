"""The DA server of the local network with the node's client, in every mode."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import pytest

from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.blobs.process.da_client import DaClient, InputNotFoundError
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.blobs import InputResponse
from rollup_node.stages.protocol.commitments import keccak_commitment
from rollup_node.tools.devnet.da_server import LIES, DaServer
from tests.support.servers.http_listener import listening

DATA = [b"input %d " % index * 50 for index in range(20)]
COMMITMENTS = [keccak_commitment(data) for data in DATA]


class Server(NamedTuple):
    """A DA server, and the node's client of it."""

    client: DaClient
    session: aiohttp.ClientSession
    url: str

    async def put(self, number: int, data: bytes | None = None) -> int:
        """Return the status of the response to an input under the commitment of that number."""
        path = f"{self.url}/put/0x{COMMITMENTS[number].encode().hex()}"
        async with self.session.post(path, data=DATA[number] if data is None else data) as response:
            return response.status

    async def get(self, number: int) -> bytes | None:
        """Return an input, None if the client does not find it."""
        try:
            answer = await self.client.get(COMMITMENTS[number])
        except InputNotFoundError:
            return None
        assert isinstance(answer, InputResponse)
        return answer.data


@asynccontextmanager
async def serving(mode: str) -> AsyncIterator[Server]:
    async with listening(DaServer(mode).application()) as (url,), aiohttp.ClientSession() as session:
        client = DaClient(DaServerConfig(url), Meter("blobs"))
        try:
            yield Server(client, session, url)
        finally:
            await client.close()


async def test_an_honest_server() -> None:
    async with serving("honest") as server:
        assert await server.get(0) is None
        assert await server.put(0) == 200 and await server.get(0) == DATA[0]
        assert await server.put(1, DATA[0]) == await server.put(1, b"") == 400
        async with server.session.post(f"{server.url}/put", data=DATA[1]) as response:
            assert await response.read() == COMMITMENTS[1].encode()
        assert await server.get(1) == DATA[1]
        for path in ("0x", "0x00", "0x05" + "00" * 32, "00"):
            async with server.session.get(f"{server.url}/get/{path}") as response:
                assert response.status == 400


async def test_a_lying_server_tells_the_truth_in_the_end() -> None:
    async with serving("lying") as server:
        await server.put(0)
        for _ in range(LIES):
            with pytest.raises(EndpointError, match="do not match commitment"):
                await server.get(0)
        assert await server.get(0) == DATA[0]
