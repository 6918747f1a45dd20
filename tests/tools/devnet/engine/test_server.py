"""The engine over HTTP, its restart from the journal, and its program."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest

from rollup_node.stages.protocol.engine_json import attributes_to_json
from rollup_node.stages.protocol.headers import Header, header_hash
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.mpt import verify_account
from rollup_node.tools.devnet.engine.__main__ import main
from rollup_node.tools.devnet.engine.execution import DaLimits
from rollup_node.tools.devnet.engine.server import EngineServer
from tests.support.chains.l2_test_chain import L2TestChain

SECRET = bytes(range(32))
ZERO = to_hex(bytes(32))
PASSER = "0x4200000000000000000000000000000000000016"


class EngineHttpClient:
    """Calls an engine over HTTP, with a JWT where a secret is given."""

    def __init__(self, session: aiohttp.ClientSession, url: str, secret: bytes | None = None) -> None:
        self.session, self.url, self.secret = session, url, secret

    async def __call__(self, method: str, *parameters: Any) -> Any:
        headers = {}
        if self.secret is not None:
            headers["Authorization"] = "Bearer " + jwt.encode({"iat": int(time.time())}, self.secret)
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        async with self.session.post(self.url, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
            result = await response.json()
        assert "error" not in result, result
        return result["result"]


def heads(head: str) -> dict[str, str]:
    return {"headBlockHash": head, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO}


async def build(engine: EngineHttpClient, l2: L2TestChain, parent: Header, *transactions: str, pool: bool) -> Any:
    attributes = attributes_to_json(l2.attributes(parent, pool=pool))
    attributes["transactions"] += transactions
    started = await engine("engine_forkchoiceUpdatedV3", heads(to_hex(header_hash(parent))), attributes)
    return await engine("engine_getPayloadV4", started["payloadId"])


async def insert(engine: EngineHttpClient, envelope: Any) -> None:
    payload = envelope["executionPayload"]
    status = await engine("engine_newPayloadV4", payload, [], envelope["parentBeaconBlockRoot"], [])
    assert status["status"] == "VALID", status
    await engine("engine_forkchoiceUpdatedV3", heads(payload["blockHash"]), None)


async def test_sequencer_verifier_and_deriver_over_http() -> None:
    l2 = L2TestChain()
    servers = [EngineServer(l2.genesis(), SECRET) for _ in range(3)]
    async with aiohttp.ClientSession() as session:
        for server in servers:
            await server.start()
        sequencer, verifier, deriver = (EngineHttpClient(session, server.auth.url, SECRET) for server in servers)
        public = EngineHttpClient(session, servers[1].http.url)
        try:
            for number in range(3):
                head = servers[0].backend.chain.head.header
                raw = to_hex(l2.transfer(0, number, value=5))
                sent = await sequencer("eth_sendRawTransaction", raw)
                built = await build(sequencer, l2, head, pool=True)
                payload = built["executionPayload"]
                assert len(payload["transactions"]) == 2
                await insert(sequencer, built)
                await insert(verifier, built)
                derived = await build(deriver, l2, head, *payload["transactions"][1:], pool=False)
                assert derived == built
                await insert(deriver, derived)
                receipt = await public("eth_getTransactionReceipt", sent)
                assert receipt["status"] == "0x1" and receipt["blockHash"] == payload["blockHash"]
            block = await public("eth_getBlockByNumber", "latest", True)
            assert block["hash"] == payload["blockHash"] and len(block["transactions"]) == 2
            proof = await public("eth_getProof", PASSER, ["0x0"], "latest")
            nodes = [from_hex(node) for node in proof["accountProof"]]
            account = verify_account(from_hex(block["stateRoot"]), from_hex(PASSER), nodes)
            assert account is not None and to_hex(account.storage_root) == proof["storageHash"]
            assert proof["storageHash"] == block["withdrawalsRoot"]
            assert await public("miner_setMaxDASize", "0x3e8", "0x0") is True
            assert servers[1].backend.da_limits == DaLimits(transaction=1000)
            async with session.post(servers[0].auth.url, json={}) as refused:
                assert refused.status == 401
            async with session.post(
                servers[0].http.url,
                json={"jsonrpc": "2.0", "id": 1, "method": "engine_getPayloadV4", "params": ["0x"]},
            ) as hidden:
                assert (await hidden.json())["error"]["code"] == -32601
        finally:
            for server in servers:
                await server.stop()


def test_a_restarted_engine_replays_its_journal(tmp_path: Path) -> None:
    l2 = L2TestChain()

    async def grow(count: int) -> str:
        server = EngineServer(l2.genesis(), SECRET, data_dir=tmp_path)
        async with aiohttp.ClientSession() as session:
            await server.start()
            engine = EngineHttpClient(session, server.auth.url, SECRET)
            for _ in range(count):
                await insert(engine, await build(engine, l2, server.backend.chain.head.header, pool=False))
            await server.stop()
        return to_hex(server.backend.chain.head.hash)

    head = asyncio.run(grow(3))
    with next(tmp_path.iterdir()).open("ab") as journal:
        journal.write(b'{"headBlockHash": "0x')
    assert asyncio.run(grow(0)) == head
    assert asyncio.run(grow(1)) != head


# --- the program ---------------------------------------------------------------------------------------------------


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "rollup_node.tools.devnet.engine", *map(str, arguments)]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    genesis, secret = tmp_path / "genesis.json", tmp_path / "jwt.txt"
    genesis.write_text(json.dumps(L2TestChain().file))
    secret.write_text(SECRET.hex())
    return {"genesis": genesis, "jwt": secret}


def test_the_program_serves_until_a_signal(files: dict[str, Path]) -> None:
    arguments = command("--genesis", files["genesis"], "--jwt", files["jwt"], "--http", 0, "--auth", 0)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        url = words[words.index("http") + 1]

        async def genesis_block() -> Any:
            async with aiohttp.ClientSession() as session:
                return await EngineHttpClient(session, url)("eth_getBlockByNumber", "0x0", False)

        assert asyncio.run(genesis_block())["hash"] == words[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("option", "content", "error"),
    [
        ("genesis", "{}", "not a genesis file"),
        ("genesis", None, "No such file"),
        ("jwt", "abc", "expected 32 bytes in hex"),
        ("jwt", None, "No such file"),
    ],
)
def test_a_failed_start_is_one_line_on_stderr(
    files: dict[str, Path], option: str, content: str | None, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is None:
        files[option].unlink()
    else:
        files[option].write_text(content)
    assert main(["--genesis", str(files["genesis"]), "--jwt", str(files["jwt"]), "--http", "0", "--auth", "0"]) == 1
    printed = capsys.readouterr().err
    assert error in printed and str(files[option]) in printed
    assert len(printed.splitlines()) == 1
