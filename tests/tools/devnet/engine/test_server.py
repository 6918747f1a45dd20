"""Engines over HTTP: as objects on one loop, and as a process with its exits."""

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
from rollup_node.stages.protocol.headers import header_hash
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.mpt import verify_account
from rollup_node.tools.devnet.engine.server import EngineServer

SECRET = bytes(range(32))
ZERO = to_hex(bytes(32))
PASSER = "0x4200000000000000000000000000000000000016"


class Client:
    """Calls an engine as a rollup node does."""

    def __init__(self, session: aiohttp.ClientSession, url: str, secret: bytes | None = None) -> None:
        self.session, self.url, self.secret = session, url, secret

    async def __call__(self, method: str, *parameters: Any) -> Any:
        headers = {}
        if self.secret is not None:
            headers["Authorization"] = "Bearer " + jwt.encode({"iat": int(time.time())}, self.secret)
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        async with self.session.post(self.url, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
            answer = await response.json()
        assert "error" not in answer, answer
        return answer["result"]


def heads(head: str) -> dict[str, str]:
    return {"headBlockHash": head, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO}


async def build(engine: Client, small: Any, parent: Any, *transactions: str, pool: bool) -> Any:
    attributes = attributes_to_json(small.attributes(parent, pool=pool))
    attributes["transactions"] += transactions
    started = await engine("engine_forkchoiceUpdatedV3", heads(to_hex(header_hash(parent))), attributes)
    return await engine("engine_getPayloadV4", started["payloadId"])


async def insert(engine: Client, envelope: Any) -> None:
    payload = envelope["executionPayload"]
    status = await engine("engine_newPayloadV4", payload, [], envelope["parentBeaconBlockRoot"], [])
    assert status["status"] == "VALID", status
    await engine("engine_forkchoiceUpdatedV3", heads(payload["blockHash"]), None)


def test_sequencer_verifier_and_deriver_over_http(small_chain: Any) -> None:
    small = small_chain()

    async def scenario() -> None:
        servers = [EngineServer(small.genesis(), SECRET) for _ in range(3)]
        async with aiohttp.ClientSession() as session:
            for server in servers:
                await server.start()
            sequencer, verifier, deriver = (Client(session, server.auth.url, SECRET) for server in servers)
            public = Client(session, servers[1].http.url)
            try:
                for number in range(3):
                    head = servers[0].ledger.chain.head.header
                    raw = to_hex(small.transfer(0, number, value=5))
                    sent = await sequencer("eth_sendRawTransaction", raw)
                    built = await build(sequencer, small, head, pool=True)
                    payload = built["executionPayload"]
                    assert len(payload["transactions"]) == 2
                    await insert(sequencer, built)
                    await insert(verifier, built)
                    derived = await build(deriver, small, head, *payload["transactions"][1:], pool=False)
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

    asyncio.run(scenario())


def test_a_restarted_engine_comes_back_to_its_chain(small_chain: Any, tmp_path: Path) -> None:
    small = small_chain()

    async def grow(count: int) -> str:
        server = EngineServer(small.genesis(), SECRET, data_dir=tmp_path)
        async with aiohttp.ClientSession() as session:
            await server.start()
            engine = Client(session, server.auth.url, SECRET)
            for _ in range(count):
                await insert(engine, await build(engine, small, server.ledger.chain.head.header, pool=False))
            await server.stop()
        return to_hex(server.ledger.chain.head.hash)

    head = asyncio.run(grow(3))
    with next(tmp_path.iterdir()).open("ab") as journal:
        journal.write(b'{"headBlockHash": "0x')
    assert asyncio.run(grow(0)) == head
    assert asyncio.run(grow(1)) != head


# --- the process ---------------------------------------------------------------------------------------------------


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "rollup_node.tools.devnet.engine", *map(str, arguments)]


@pytest.fixture
def files(small_chain: Any, tmp_path: Path) -> dict[str, Path]:
    genesis, secret = tmp_path / "genesis.json", tmp_path / "jwt.txt"
    genesis.write_text(json.dumps(small_chain().file))
    secret.write_text(SECRET.hex())
    return {"genesis": genesis, "jwt": secret}


def test_the_process_serves_and_stops_on_a_signal(files: dict[str, Path]) -> None:
    arguments = command("--genesis", files["genesis"], "--jwt", files["jwt"], "--http", 0, "--auth", 0)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        url = words[words.index("http") + 1]

        async def ask() -> Any:
            async with aiohttp.ClientSession() as session:
                return await Client(session, url)("eth_getBlockByNumber", "0x0", False)

        assert asyncio.run(ask())["hash"] == words[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("option", "content", "problem"),
    [
        ("genesis", "{}", "not a genesis file"),
        ("genesis", None, "No such file"),
        ("jwt", "abc", "expected 32 bytes in hex"),
        ("jwt", None, "No such file"),
    ],
)
def test_the_process_says_in_one_line_why_it_cannot_start(
    files: dict[str, Path], option: str, content: str | None, problem: str
) -> None:
    if content is None:
        files[option].unlink()
    else:
        files[option].write_text(content)
    arguments = command("--genesis", files["genesis"], "--jwt", files["jwt"], "--http", 0, "--auth", 0)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1 and problem in done.stderr and str(files[option]) in done.stderr
    assert len(done.stderr.splitlines()) == 1
