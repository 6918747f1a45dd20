"""The ports of the engine, and its program. Networks build and derive by them; test_chain_sync restarts one."""

import asyncio
import json
import socket
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from rollup_node.stages.io.http.endpoint_errors import RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.tools.devnet.engine.__main__ import main
from rollup_node.tools.devnet.engine.execution import DaLimits
from rollup_node.tools.devnet.engine.server import EngineServer
from tests.support.chains.l2_test_chain import L2TestChain

SECRET = bytes(range(32))


async def test_the_engine_api_needs_a_token_and_is_not_public() -> None:
    server = EngineServer(L2TestChain().genesis(), SECRET)
    await server.start()
    public = JsonRpcClient(server.http.url)
    async with aiohttp.ClientSession() as session, session.post(server.auth.url, json={}) as refused:
        assert refused.status == 401
    with pytest.raises(RpcFailure, match="does not exist"):
        await public.call("engine_getPayloadV4", "0x")
    assert await public.call("miner_setMaxDASize", "0x3e8", "0x0") is True
    assert server.backend.da_limits == DaLimits(transaction=1000)
    await public.close()
    await server.stop()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    genesis, secret = tmp_path / "genesis.json", tmp_path / "jwt.txt"
    genesis.write_text(json.dumps(L2TestChain().file))
    secret.write_text(SECRET.hex())
    return {"genesis": genesis, "jwt": secret}


async def test_ipc_serves_the_engine_api_without_a_token(files: dict[str, Path], tmp_path: Path) -> None:
    """[WSK7, WSK8] Also where an ended engine has left its socket; requests may come in pieces, several at a time."""
    path = tmp_path / "engine.ipc"
    with suppress(OSError), socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    server = EngineServer(L2TestChain().genesis(), SECRET, ipc=path)
    await server.start()
    reader, writer = await asyncio.open_unix_connection(path)
    calls = [{"jsonrpc": "2.0", "id": n, "method": "eth_chainId", "params": []} for n in range(3)]
    sent = json.dumps(calls[0]) + json.dumps(calls[1:])
    for part in (sent[:20], sent[20:]):
        writer.write(part.encode())
        await writer.drain()
    assert json.loads(await reader.readline())["id"] == 0
    assert [answer["id"] for answer in json.loads(await reader.readline())] == [1, 2]
    writer.write(b"garbage\n")
    assert await reader.read() == b""
    writer.close()
    client = JsonRpcClient(str(path))
    with pytest.raises(RpcFailure, match="Unknown payload"):
        await client.call("engine_getPayloadV4", "0x")
    await server.stop()
    await client.close()
    assert not path.exists()


@pytest.mark.parametrize(
    ("option", "content", "error"),
    [
        ("genesis", "{}", "not a genesis file"),
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
