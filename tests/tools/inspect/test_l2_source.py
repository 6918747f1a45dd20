"""The sources of known L2 blocks: valid blocks in both forms, and errors of files and of engines."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import web

from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.headers import encode_header
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash, payload_header
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.responses import header_json
from rollup_node.tools.inspect.l2_source import EngineSource, FileSource, SourceError
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.servers.http_listener import app_for_every_path, json_rpc_app, listening


def _payloads(chain: ChainFixture, count: int) -> list[ExecutionPayload]:
    """Consecutive blocks from number 1 on."""
    return [chain.payloads[ref.hash] for ref in chain.build(count)[1:]]


def _entry(payload: ExecutionPayload, prefix: str = "0x") -> dict[str, Any]:
    """A block as header RLP and encoded transactions."""
    header = encode_header(payload_header(payload))
    return {"header_rlp": prefix + header.hex(), "txs": [prefix + raw.hex() for raw in payload.transactions]}


def _block_json(payload: ExecutionPayload) -> dict[str, Any]:
    """A block without transactions as eth_getBlockByNumber returns it."""
    header = payload_header(payload)
    return {**header_json(header), "hash": "0x" + payload.block_hash.hex(), "transactions": [], "withdrawals": []}


def _write(folder: Path, content: Any) -> Path:
    path = folder / "blocks.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def _error_of(path: Path) -> str:
    with pytest.raises(SourceError) as raised:
        FileSource.read(path)
    return str(raised.value)


# --- files ---------------------------------------------------------------------------------------------------------


def test_blocks_of_a_file_by_number(chain: ChainFixture, tmp_path: Path) -> None:
    first, second, third = _payloads(chain, 3)
    path = _write(tmp_path, [_entry(third), _entry(first, prefix="")])

    async def scenario() -> None:
        source = FileSource.read(path)
        assert source.numbers == [1, 3]
        assert await source.payload(1) == first
        assert await source.payload(3) == third
        assert await source.payload(second.block_number) is None
        await source.close()

    asyncio.run(scenario())


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    assert _error_of(missing) == f"cannot read {missing}: No such file or directory"
    assert _error_of(tmp_path) == f"cannot read {tmp_path}: Is a directory"


@pytest.mark.parametrize("content", ["", "not JSON", "[{]", "\x00"])
def test_a_file_that_is_not_json(content: str, tmp_path: Path) -> None:
    path = _write(tmp_path, content)
    assert _error_of(path).startswith(f"{path} is not JSON: ")


@pytest.mark.parametrize("content", [[], {}, {"blocks": []}, None, 5, "blocks"])
def test_json_that_is_not_a_list_of_blocks(content: Any, tmp_path: Path) -> None:
    path = _write(tmp_path, json.dumps(content))
    assert _error_of(path) == f"{path}: expected a list of blocks"


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: None,
        lambda entry: 5,
        lambda entry: {},
        lambda entry: {**entry, "header_rlp": "0xzz"},
        lambda entry: {**entry, "header_rlp": entry["header_rlp"][:-2]},
        lambda entry: {**entry, "header_rlp": "0xc0"},
        lambda entry: {**entry, "header_rlp": 5},
        lambda entry: {"header_rlp": entry["header_rlp"]},
        lambda entry: {**entry, "txs": None},
        lambda entry: {**entry, "txs": [5]},
        lambda entry: {**entry, "txs": ["0x0"]},
    ],
)
def test_a_malformed_block_is_named_by_its_index(
    damage: Callable[[dict[str, Any]], Any], chain: ChainFixture, tmp_path: Path
) -> None:
    first, second = (_entry(payload) for payload in _payloads(chain, 2))
    path = _write(tmp_path, [first, damage(second)])
    assert _error_of(path).startswith(f"{path}: block 1 of the list: ")


# --- engines -------------------------------------------------------------------------------------------------------


def _with_engine(answer: Callable[[str, bool], Any]) -> ExecutionPayload | None:
    """The source's block 5 with an engine whose eth_getBlockByNumber is `answer`."""

    async def scenario() -> ExecutionPayload | None:
        async with listening(json_rpc_app({"eth_getBlockByNumber": answer})) as (url,):
            source = EngineSource(url)
            try:
                return await source.payload(5)
            finally:
                await source.close()

    return asyncio.run(scenario())


def test_a_block_of_an_engine_is_requested_with_full_transactions(chain: ChainFixture) -> None:
    (payload,) = _payloads(chain, 1)
    empty = msgspec.structs.replace(payload, transactions=())
    empty = msgspec.structs.replace(empty, block_hash=payload_block_hash(empty))
    requests = []

    def answer(number: str, full: bool) -> dict[str, Any]:
        requests.append((number, full))
        return _block_json(empty)

    assert _with_engine(answer) == empty
    assert requests == [("0x5", True)]


def test_a_block_that_an_engine_does_not_have_is_none() -> None:
    assert _with_engine(lambda number, full: None) is None


def test_an_error_object_of_an_engine_is_temporary() -> None:
    def answer(number: str, full: bool) -> None:
        raise JsonRpcError(-32000, "the engine is syncing")

    with pytest.raises(TemporaryError, match=r"^L2 block 5: .*the engine is syncing"):
        _with_engine(answer)


def test_a_block_without_its_hash_is_temporary(chain: ChainFixture) -> None:
    (payload,) = _payloads(chain, 1)

    with pytest.raises(TemporaryError, match=r"^L2 block 5: block 1: its content does not have the hash 0x"):
        _with_engine(lambda number, full: _block_json(payload))
    with pytest.raises(TemporaryError, match=r"^L2 block 5: malformed block: "):
        _with_engine(lambda number, full: {"number": number})
    with pytest.raises(
        TemporaryError, match=r"^L2 block 5: .*the answer to eth_getBlockByNumber is malformed: Expected `object"
    ):
        _with_engine(lambda number, full: [number])


def test_an_unreachable_engine_is_temporary() -> None:
    async def scenario() -> None:
        async with listening(json_rpc_app({})) as (url,):
            pass
        source = EngineSource(url)
        with pytest.raises(TemporaryError, match=r"^L2 block 5: .*cannot connect"):
            await source.payload(5)
        await source.close()

    asyncio.run(scenario())


def test_with_a_secret_each_request_has_a_token() -> None:
    secret, tokens = b"\x07" * 32, []

    async def answer(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("Authorization", ""))
        call = json.loads(await request.read())
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], "result": None})

    async def scenario() -> None:
        async with listening(app_for_every_path(answer)) as (url,):
            for source in (EngineSource(url, secret), EngineSource(url)):
                assert await source.payload(5) is None
                await source.close()

    asyncio.run(scenario())
    first, second = tokens
    assert jwt.decode(first.removeprefix("Bearer "), secret, algorithms=["HS256"])["iat"] > 0
    assert second == ""
