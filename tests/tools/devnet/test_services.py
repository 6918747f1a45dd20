"""The signer and the DA server of the local network, with the node's clients; the dispute game factory, as a proposer
reads it; deposits."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.blobs.process.da_client import DaClient, InputNotFoundError
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.blobs import InputResponse
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.protocol.commitments import keccak_commitment
from rollup_node.stages.protocol.deposits import DepositTransaction, deposit_from_log
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.keys import private_key
from rollup_node.stages.protocol.types import Log
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.da_server import LIES, DaServer
from rollup_node.tools.devnet.files import PORTAL, SIGNER_KEY
from rollup_node.tools.devnet.games import FACTORY, selector
from rollup_node.tools.devnet.signer import SignerMethods, main
from rollup_node.tools.devnet.traffic import deposit_call
from tests.support.chains.l1_with_games import L1WithGames
from tests.support.servers.http_listener import listening

KEY = LocalSigner(SIGNER_KEY.secret)
METHODS = SignerMethods(private_key(SIGNER_KEY.secret))
HASH = b"\x07" * 32


def request(**changes: Any) -> dict[str, Any]:
    wanted = {"domain": [0] * 32, "chainId": 901, "payloadHash": base64.b64encode(HASH).decode()}
    return {**wanted, "senderAddress": to_hex(KEY.address), **changes}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"senderAddress": "0x" + "11" * 20}, "there is no key of 0x1111"),
        ({"domain": [1] * 32}, "the domain must be 32 zeros"),
        ({"payloadHash": "AAAA"}, "have 32 bytes"),
        ({"payloadHash": "?"}, "malformed signing request"),
        ({"chainId": "901"}, "malformed signing request"),
    ],
)
def test_other_requests_are_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(JsonRpcError, match=error):
        METHODS.sign(request(**changes))


def test_an_unusable_key_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "key.txt"
    for text in ("xyz", "00"):
        path.write_text(text)
        assert main(["--key-file", str(path)]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


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


def view(signature: str, *words: bytes) -> bytes:
    data = selector(signature).to_bytes(4, "big") + b"".join(words)
    request = {"to": to_hex(FACTORY), "data": to_hex(data)}
    return from_hex(L1WithGames().methods()["eth_call"](request, "latest"))


def test_a_proposer_finds_a_version_and_no_bond() -> None:
    assert view("initBonds(uint32)", (1).to_bytes(32, "big")) == bytes(32)
    assert view("version()")[64:69] == b"1.4.0"


def test_deposit_call_is_a_deposit_log() -> None:
    data = deposit_call(b"\x01" * 20, b"\x02" * 20, mint=3, value=4, gas=50_000, data=b"hello")
    log = Log(PORTAL, tuple(data[at : at + 32] for at in range(0, 128, 32)), data[128:], 0)
    deposit = deposit_from_log(log, bytes(32))
    assert isinstance(deposit, DepositTransaction)
    assert (deposit.sender, deposit.to, deposit.mint, deposit.value) == (b"\x01" * 20, b"\x02" * 20, 3, 4)
    assert (deposit.gas, deposit.data) == (50_000, b"hello")
