"""The reader of games: which calls it makes, what a reorg does, and what it believes [WAT1, WAT3, WAT9]."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from rollup_node.stages.io.http.endpoint_errors import RpcFailure
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import super_preimage
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.watch import l1_reader
from rollup_node.tools.watch.l1_reader import Advance, ContractError, GameData, L1Reader, Listed
from tests.support.chains.l1_with_games import L1WithGames

CLAIM, HEAD, EXTRA = b"\x01" * 32, b"\x02" * 32, (9).to_bytes(32, "big")


def _word(value: int) -> bytes:
    return value.to_bytes(32, "big")


def test_selectors_and_topics_are_those_of_the_contracts() -> None:
    """Known values: gameCount() and the topic of DisputeGameCreated."""
    assert l1_reader.GAME_COUNT.hex() == "4d1975b4"
    assert l1_reader.GAME_AT_INDEX.hex() == "bb8aa1fc"
    assert l1_reader.CREATED.hex() == "5b565efe82411da98814f356d0e7bcb8f0219b8d970307c5afb4a6903a8b2e35"
    assert l1_reader.call("0x" + "aa" * 20, l1_reader.GAME_AT_INDEX, 5)["data"] == "0xbb8aa1fc" + _word(5).hex()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        5,
        "0x",
        "0x1",
        to_hex(_word(1) + CLAIM),
        to_hex(_word(1) + CLAIM + _word(96) + _word(33) + EXTRA),
        to_hex(_word(1) + CLAIM + _word(1 << 200) + _word(32) + EXTRA),
        to_hex(bytes(l1_reader.MAX_ANSWER + 32)),
        to_hex(_word(1 << 32) + CLAIM + _word(96) + _word(32) + EXTRA),
    ],
)
def test_answers_that_are_no_game_are_refused(answer: Any) -> None:
    with pytest.raises(ContractError):
        l1_reader.game_data(answer)


def test_a_game_without_a_number_is_refused() -> None:
    data = l1_reader.game_data(to_hex(_word(1) + CLAIM + _word(96) + _word(2) + bytes(32)))
    assert data.extra_data == bytes(2)
    with pytest.raises(ContractError, match="have 2 bytes"):
        _ = data.l2_sequence_number


def test_the_time_of_a_super_root_is_in_its_preimage() -> None:
    """Older games have it as a word, as blocks are."""
    preimage = super_preimage(1_700_000_000, [(10, CLAIM)])
    assert GameData(4, CLAIM, preimage).l2_sequence_number == 1_700_000_000
    assert GameData(4, CLAIM, EXTRA).l2_sequence_number == GameData(0, CLAIM, EXTRA + CLAIM).l2_sequence_number == 9
    for wrong in (preimage[:-1], b"\0" + preimage[1:]):
        with pytest.raises(ContractError, match="are no super root"):
            _ = GameData(9, CLAIM, wrong).l2_sequence_number


@pytest.mark.parametrize("log", [None, {}, {"topics": []}, {"topics": ["0x1", 5, None, "x"]}])
def test_logs_that_are_not_the_event_are_refused(log: Any) -> None:
    with pytest.raises(ContractError):
        l1_reader.created(log)


def test_entries_are_packed_as_the_factory_packs_them() -> None:
    entry = Listed(0x01020304, 0x0A0B0C0D0E0F1011, "0x" + "aa" * 20)
    assert l1_reader.packed(entry).hex() == "010203040a0b0c0d0e0f1011" + "aa" * 20
    words = (_word(1), _word(2), bytes(12) + b"\xaa" * 20)
    assert l1_reader.listed(to_hex(b"".join(words))) == Listed(1, 2, "0x" + "aa" * 20)
    with pytest.raises(ContractError, match="a number of 64 bits is"):
        l1_reader.listed(to_hex(_word(1) + _word(1 << 64) + _word(1)))


def test_the_code_of_a_proxy_shows_its_data_in_both_layouts() -> None:
    data = GameData(8, CLAIM, EXTRA)
    assert l1_reader.code_shows(b"\x36" + CLAIM + HEAD + EXTRA + b"\0\x74", data, HEAD)
    assert l1_reader.code_shows(b"\x36" + CLAIM + HEAD + (8).to_bytes(4, "big") + EXTRA + b"args", data, HEAD)
    assert not l1_reader.code_shows(b"\x36" + CLAIM + HEAD + _word(10), data, HEAD)
    assert not l1_reader.code_shows(b"\x36" + CLAIM + CLAIM + EXTRA, data, HEAD)


ROOT = b"\x11" * 32


async def _begin(reader: L1Reader) -> None:
    """Read the first head and the list, as a watch does."""
    first = await reader.advance()
    assert first is not None and first.gap
    await reader.games_since(0)


async def test_a_poll_is_one_call_and_a_game_one_more(l1: L1WithGames, reader: L1Reader) -> None:
    await _begin(reader)
    l1.calls.clear()
    assert await reader.advance() is None
    l1.mine()
    assert await reader.advance() == Advance()
    assert l1.calls == Counter({"eth_getBlockByNumber": 2}), "the head alone"
    l1.calls.clear()
    block = l1.game(ROOT, 7, 8)
    advance = await reader.advance()
    assert advance is not None
    (game,) = advance.games
    assert l1.calls == Counter({"eth_getBlockByNumber": 1, "eth_getLogs": 1, "eth_call": 2})
    assert (game.game_type, game.root_claim, game.l2_sequence_number) == (8, to_hex(ROOT), 7)
    assert (game.block, game.block_hash, game.l1_head_num) == (1 + 1, l1.hash_of(block), 1)
    assert game.l1_head == to_hex(block.header.parent_hash) and game.timestamp == block.header.timestamp
    assert not game.proven


async def test_the_list_is_read_after_a_gap_and_within_the_window(
    l1: L1WithGames, reader: L1Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(l1_reader, "MAX_WALK", 3)
    monkeypatch.setattr(l1_reader, "BATCH", 2)
    old = l1.game(ROOT, 1)
    for number in range(2, 7):
        l1.game(ROOT, number)
    assert await reader.advance() == Advance(anchor_moved=True, gap=True)
    games = await reader.games_since(old.header.timestamp + 1)
    assert [game.l2_sequence_number for game in games] == [2, 3, 4, 5, 6]
    assert [game.l1_head_num for game in games] == [1, 2, 3, 4, 5] and all(game.block == 0 for game in games)
    for number in range(7, 12):
        l1.game(ROOT, number)
    assert await reader.advance() == Advance(anchor_moved=True, gap=True)
    assert [game.l2_sequence_number for game in await reader.games_since(0)] == [7, 8, 9, 10, 11]


async def test_a_game_that_is_newer_than_the_head_comes_with_its_block(l1: L1WithGames, reader: L1Reader) -> None:
    """[WAT2]: at the head the game has no code yet."""
    await reader.advance()
    l1.game(ROOT, 7)
    assert await reader.games_since(0) == []
    advance = await reader.advance()
    assert advance is not None
    assert [(game.l2_sequence_number, game.problem) for game in advance.games] == [(7, "")]


async def test_a_proven_head_proves_its_games(l1: L1WithGames, reader: L1Reader) -> None:
    l1.game(ROOT, 5)
    block = l1.game(ROOT, 6)
    proven = (block.header.number, block.hash)
    await reader.advance(proven)
    games = await reader.games_since(0)
    assert [game.proven for game in games] == [True, True]
    l1.calls.clear()
    assert await reader.advance(proven) is None and not l1.calls, "not even the head is asked for"
    for extra, number in ((7, 7), (super_preimage(8, [(10, ROOT), (11, ROOT)]), 8)):
        later = l1.game(ROOT, extra, 4)
        advance = await reader.advance((later.header.number, later.hash))
        assert advance is not None
        (game,) = advance.games
        assert (game.l2_sequence_number, game.proven) == (number, True)


@pytest.mark.parametrize("method", ["eth_getProof", "eth_getCode"])
async def test_what_is_not_proven_is_said_to_be_so(method: str, l1: L1WithGames, reader: L1Reader) -> None:
    def other(answer: Any) -> Any:
        return "0x00" if method == "eth_getCode" else {"accountProof": ["0x80"], "storageProof": []}

    l1.changes[method] = other
    block = l1.game(ROOT, 6)
    await reader.advance((block.header.number, block.hash))
    (game,) = await reader.games_since(0)
    assert not game.proven


async def test_a_lie_about_a_game_is_not_proven(l1: L1WithGames, reader: L1Reader) -> None:
    """The endpoint gives another L2 block for a claim: the code of the proxy has the true one."""
    l1.changes["eth_call"] = lambda answer: answer.replace(f"{6:064x}", f"{9:064x}")
    block = l1.game(ROOT, 6)
    await reader.advance((block.header.number, block.hash))
    (game,) = await reader.games_since(0)
    assert (game.l2_sequence_number, game.proven) == (9, False)


async def test_a_head_that_is_not_its_hash_is_refused(l1: L1WithGames, reader: L1Reader) -> None:
    l1.changes["eth_getBlockByNumber"] = lambda answer: {**answer, "number": "0x99"}
    with pytest.raises(InvalidDataError):
        await reader.advance()
    other = l1.mine()
    l1.changes["eth_getBlockByHash"] = lambda answer: l1.methods()["eth_getBlockByNumber"]("0x0", False)
    del l1.changes["eth_getBlockByNumber"]
    with pytest.raises(InvalidDataError, match="asked for L1 block"):
        await reader.advance((other.header.number, other.hash))
    l1.changes["eth_getBlockByHash"] = lambda answer: None
    with pytest.raises(ContractError, match="does not have L1 block"):
        await reader.advance((other.header.number, other.hash))
    l1.changes["eth_getLogs"] = lambda answer: msgspec.json.decode(b"{}")
    await _begin(reader)
    l1.game(ROOT, 1)
    with pytest.raises(ContractError, match="eth_getLogs is no list"):
        await reader.advance()


async def test_a_game_that_does_not_tell_its_data_is_known_and_holds_up_nothing(
    l1: L1WithGames, reader: L1Reader
) -> None:
    await _begin(reader)

    def reverted(answer: Any) -> Any:
        raise JsonRpcError(3, "execution reverted")

    l1.changes["eth_call"] = reverted
    l1.game(ROOT, 6)
    advance = await reader.advance()
    assert advance is not None
    (game,) = advance.games
    assert game.problem.startswith("its contract does not tell its data: ") and game.root_claim == to_hex(ROOT)
    l1.changes["eth_call"] = lambda answer: "0x"
    l1.game(ROOT, 7)
    advance = await reader.advance()
    assert advance is not None and advance.games[0].problem

    def busy(answer: Any) -> Any:
        raise JsonRpcError(-32005, "too many requests")

    l1.changes["eth_call"] = busy
    l1.game(ROOT, 8)
    with pytest.raises(RpcFailure):
        await reader.advance()
    l1.changes.clear()
    advance = await reader.advance()
    assert advance is not None and [item.l2_sequence_number for item in advance.games] == [8], "it was asked again"
