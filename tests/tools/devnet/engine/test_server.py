"""The engine over HTTP, its restart from the journal, and its program."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.engine_json import attributes_to_json
from rollup_node.stages.protocol.headers import Header, header_hash
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import L2_TO_L1_MESSAGE_PASSER
from rollup_node.tools.devnet.engine.__main__ import main
from rollup_node.tools.devnet.engine.execution import DaLimits
from rollup_node.tools.devnet.engine.server import EngineServer
from tests.support.chains.l2_test_chain import L2TestChain
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, call

SECRET = bytes(range(32))
ZERO = to_hex(bytes(32))


@asynccontextmanager
async def connected(*servers: EngineServer) -> AsyncIterator[list[JsonRpcClient]]:
    """Start engines, and yield clients of their authenticated APIs."""
    token = {"Authorization": "Bearer " + jwt.encode({"iat": int(time.time())}, SECRET)}
    async with AsyncExitStack() as stack:
        clients = []
        for server in servers:
            await server.start()
            stack.push_async_callback(server.stop)
            clients.append(JsonRpcClient(server.auth.url, headers=lambda: token))
            stack.push_async_callback(clients[-1].close)
        yield clients


def heads(head: str) -> dict[str, str]:
    return {"headBlockHash": head, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO}


async def build(engine: JsonRpcClient, l2: L2TestChain, parent: Header, *transactions: str, pool: bool) -> Any:
    attributes = attributes_to_json(l2.attributes(parent, pool=pool))
    attributes["transactions"] += transactions
    started = await engine.call("engine_forkchoiceUpdatedV3", heads(to_hex(header_hash(parent))), attributes)
    return await engine.call("engine_getPayloadV4", started["payloadId"])


async def insert(engine: JsonRpcClient, envelope: Any) -> None:
    payload = envelope["executionPayload"]
    status = await engine.call("engine_newPayloadV4", payload, [], envelope["parentBeaconBlockRoot"], [])
    assert status["status"] == "VALID", status
    await engine.call("engine_forkchoiceUpdatedV3", heads(payload["blockHash"]), None)


async def test_sequencer_verifier_and_deriver_over_http() -> None:
    l2 = L2TestChain()
    servers = [EngineServer(l2.genesis(), SECRET) for _ in range(3)]
    async with connected(*servers) as (sequencer, verifier, deriver), aiohttp.ClientSession() as session:
        public = JsonRpcClient(servers[1].http.url)
        for number in range(3):
            head = servers[0].backend.chain.head.header
            sent = await sequencer.call("eth_sendRawTransaction", to_hex(l2.transfer(0, number, value=5)))
            built = await build(sequencer, l2, head, pool=True)
            payload = built["executionPayload"]
            assert len(payload["transactions"]) == 2
            derived = await build(deriver, l2, head, *payload["transactions"][1:], pool=False)
            assert derived == built
            for engine in (sequencer, verifier, deriver):
                await insert(engine, built)
            receipt = await public.call("eth_getTransactionReceipt", sent)
            assert receipt["status"] == "0x1" and receipt["blockHash"] == payload["blockHash"]
        block = await public.call("eth_getBlockByNumber", "latest", True)
        assert block["hash"] == payload["blockHash"] and len(block["transactions"]) == 2
        proof = await public.call("eth_getProof", to_hex(L2_TO_L1_MESSAGE_PASSER), ["0x0"], "latest")
        assert proof["storageHash"] == block["withdrawalsRoot"]
        assert await public.call("miner_setMaxDASize", "0x3e8", "0x0") is True
        assert servers[1].backend.da_limits == DaLimits(transaction=1000)
        async with session.post(servers[0].auth.url, json={}) as refused:
            assert refused.status == 401
        with pytest.raises(RpcFailure, match="does not exist"):
            await public.call("engine_getPayloadV4", "0x")
        await public.close()


async def test_a_restarted_engine_replays_its_journal(tmp_path: Path) -> None:
    l2 = L2TestChain()

    async def grow(count: int) -> str:
        server = EngineServer(l2.genesis(), SECRET, data_dir=tmp_path)
        async with connected(server) as (engine,):
            for _ in range(count):
                await insert(engine, await build(engine, l2, server.backend.chain.head.header, pool=False))
        return to_hex(server.backend.chain.head.hash)

    head = await grow(3)
    with next(tmp_path.iterdir()).open("ab") as journal:
        journal.write(b'{"headBlockHash": "0x')
    assert await grow(0) == head
    assert await grow(1) != head


# --- the program ---------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    genesis, secret = tmp_path / "genesis.json", tmp_path / "jwt.txt"
    genesis.write_text(json.dumps(L2TestChain().file))
    secret.write_text(SECRET.hex())
    return {"genesis": genesis, "jwt": secret}


def test_the_program_serves_until_a_signal(files: dict[str, Path], leftovers: Leftovers) -> None:
    words = [f"--{name}={path}" for name, path in files.items()]
    with Program(leftovers, "rollup_node.tools.devnet.engine", *words, "--http=0", "--auth=0") as program:
        line = program.wait_for_line("http").split()
        assert call(line[line.index("http") + 1], "eth_getBlockByNumber", "0x0", False)["hash"] == line[1]
        assert program.stop().code == 0


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
