"""What a history asks of L1 before its ranges run."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import UNKNOWN_HASH, BlockId, L2BlockContent, L2BlockRef
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.history import l1_view as module
from rollup_node.tools.history.archive import BlockArchive
from rollup_node.tools.history.l1_view import L1View, RecentBlocks, l1_view, read_blocks
from tests.support.chains.fake_l1_chain import BLOCK_TIME, FakeL1Chain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.servers.http_listener import Methods, json_rpc_app, listening

CHAIN = FakeL1Chain(10)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0, 0.0))


async def _view(methods: Methods, first: int, archive: Path | None = None) -> tuple[L1View, list[str]]:
    """Return the view of an endpoint, and the blocks that it was asked for."""
    asked: list[str] = []

    def by_number(number: str, full: bool) -> Any:
        asked.append(number)
        return CHAIN.methods(1)["eth_getBlockByNumber"](number, full)

    known: Methods = {"eth_blockNumber": lambda: "0x9", "eth_getBlockByNumber": by_number}
    async with listening(json_rpc_app({**known, **methods})) as urls:
        config = L1Config(urls, (PLAIN_ROLLUP,))
        if archive is not None:
            body = msgspec.json.encode({"result": CHAIN.block_json(4)})
            await BlockArchive(str(archive), PLAIN_ROLLUP.l1_chain_id, 9).keep(CHAIN.block(4).header, body, None)
        return await l1_view(config, first, None if archive is None else str(archive)), asked


async def test_head_finalized_block_and_time(tmp_path: Path) -> None:
    assert await _view({}, 5) == (L1View(9, 3, 5 * BLOCK_TIME), ["0x5", "finalized"])
    assert await _view({}, 50) == (L1View(9, 3, 9 * BLOCK_TIME), ["0x9", "finalized"])
    assert await _view({}, 4, tmp_path) == (L1View(9, 3, 4 * BLOCK_TIME), ["finalized"])
    assert await _view({}, 5, tmp_path) == (L1View(9, 3, 5 * BLOCK_TIME), ["0x5", "finalized"])


async def test_an_endpoint_without_finality_and_one_that_is_none() -> None:
    def without_labels(number: str, full: bool) -> Any:
        if number == "finalized":
            raise JsonRpcError(-32602, "unknown label")
        return {"timestamp": to_hex(b"\x07"), "number": number}

    assert (await _view({"eth_getBlockByNumber": without_labels}, 5))[0] == L1View(9, -1, 7)
    with pytest.raises(SetupError, match="--l1: unexpected answer"):
        await _view({"eth_blockNumber": lambda: "many"}, 5)
    with pytest.raises(SetupError, match="--l1: error -32602"):
        await _view({"eth_blockNumber": lambda: without_labels("finalized", False)}, 5)


async def test_an_endpoint_that_fails_once_is_asked_again() -> None:
    answers = iter(["many", "0x9"])
    assert (await _view({"eth_blockNumber": lambda: next(answers)}, 5))[0] == L1View(9, 3, 5 * BLOCK_TIME)


def block(number: int, *transactions: bytes) -> L2BlockContent:
    ref = L2BlockRef(UNKNOWN_HASH, number, UNKNOWN_HASH, 2 * number, BlockId(5, b"\x01" * 32), 0)
    return L2BlockContent(ref, transactions)


def test_the_oldest_leave_by_number_and_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BLOCKS", 3)
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    recent_blocks = RecentBlocks(block(number) for number in range(5))
    assert [number for number in range(5) if recent_blocks.get(number)] == [2, 3, 4]
    recent_blocks.add(block(5, b"12345", b"123456"))
    assert [number for number in range(6) if recent_blocks.get(number)] == []
    recent_blocks.add(block(6, b"1"))
    recent_blocks.add(block(6, b"2"))
    assert recent_blocks.get(6) == block(6, b"1")


def test_a_file_has_them(tmp_path: Path) -> None:
    RecentBlocks([block(1, b"a", b"b"), block(2)]).write(tmp_path / "a")
    blocks = read_blocks(tmp_path / "a")
    assert (blocks.get(1), blocks.get(2), blocks.get(3)) == (block(1, b"a", b"b"), block(2), None)


def test_a_file_of_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"\S"):
        read_blocks(tmp_path / "a")
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 7)
    with pytest.raises(ValueError, match="it has more than 7 bytes"):
        read_blocks(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        read_blocks(tmp_path / "none")
