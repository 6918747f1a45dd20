"""The loop of `watch`: what is told, what is asked again, and how it goes on after a failure [WAT7 to WAT9]."""

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.games import ANCHOR, set_anchor_call
from rollup_node.tools.watch.games import Game, Opinion
from rollup_node.tools.watch.l1_reader import L1Reader
from rollup_node.tools.watch.node_reader import OwnSide, View
from rollup_node.tools.watch.server import WatchMetrics
from rollup_node.tools.watch.service import Output, Watch
from tests.support.chains.l1_with_games import GENESIS_TIME, L1WithGames

ROOT, WRONG = b"\x11" * 32, b"\x22" * 32


@dataclass
class FakeSide:
    """A node whose root of every block is ROOT, and that reads L1 up to `current`."""

    name: str = "node"
    is_supernode: bool = False
    current: int = 1000
    proven: tuple[int, Hash] | None = None
    error: Exception | None = None
    failing_games: set[int] = field(default_factory=set)
    asked: list[int] = field(default_factory=list)

    async def view(self) -> View:
        if self.error is not None:
            raise self.error
        return View(self.current, 0, 1000, self.proven)

    def compares(self, game: Game) -> bool:
        return not self.is_supernode

    async def opinion(self, game: Game, view: View) -> Opinion:
        self.asked.append(game.l2_sequence_number)
        if game.l2_sequence_number in self.failing_games:
            raise RpcFailure(-32000, "busy")
        return Opinion(view.current_l1, ROOT, True)

    async def root(self, sequence_number: int, view: View) -> Hash | None:
        return ROOT


class Told:
    """What a watch writes."""

    def __init__(self) -> None:
        self.games: list[str] = []
        self.notes: list[str] = []

    def output(self, as_json: bool = False) -> Output:
        return Output(self.games.append, self.notes.append, as_json)


@pytest.fixture
def side() -> FakeSide:
    return FakeSide()


@pytest.fixture
def told() -> Told:
    return Told()


def _watch(reader: L1Reader, side: FakeSide, told: Told, as_json: bool = False) -> Watch:
    metrics = WatchMetrics("v1")
    return Watch(reader, cast(OwnSide, side), metrics, told.output(as_json), 1000.0, lambda: float(GENESIS_TIME + 100))


async def test_claims_are_told_once(l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told) -> None:
    l1.game(ROOT, 5)
    watch = _watch(reader, side, told)
    await watch.step()
    assert watch.is_caught_up and not watch.has_disagreement
    l1.game(WRONG, 6)
    await watch.step()
    await watch.step()
    assert [text.partition(":")[0] for text in told.games] == ["agree", "disagree"]
    assert watch.has_disagreement and "1 agree, 1 disagree, 0 not yet, 0 ignored" in watch.summary
    assert "L1 is NOT proven" in told.notes[0] and "agree" in watch.pages.html()
    assert [item["verdict"] for item in json.loads(watch.pages.json())] == ["disagree", "agree"]
    assert b"op_dispute_mon_up 1.0" in watch.pages.metrics()


async def test_json_has_what_is_missing(l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told) -> None:
    side.current = 0
    l1.mine()
    l1.game(WRONG, 6)
    watch = _watch(reader, side, told, as_json=True)
    await watch.step()
    assert told.games == [], "not yet is what it was before"
    assert "the node has read L1 up to block 0" in json.loads(watch.pages.json())[0]["missing"]
    side.current = 1000
    await watch.step()
    (shown,) = (json.loads(text) for text in told.games)
    assert (shown["verdict"], shown["expectedRootClaim"]) == ("disagree", to_hex(ROOT))


async def test_a_node_that_fails_is_asked_again(l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told) -> None:
    side.error = EndpointError("node", "cannot connect")
    l1.game(WRONG, 6)
    watch = _watch(reader, side, told)
    for _ in range(3):
        await watch.step()
    assert not watch.is_caught_up and "node fails: " in watch.summary
    assert sum("does not answer" in note for note in told.notes) == 1, "said once"
    assert b'rollup_node_watch_failing{endpoint="node"} 1.0' in watch.pages.metrics()
    side.error = None
    await watch.step()
    assert "node answers again" in told.notes and len(told.games) == 1


async def test_l1_that_fails_is_asked_again(
    l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = _watch(reader, side, told)
    l1.changes["eth_call"] = lambda answer: "0x"
    l1.game(WRONG, 6)
    await watch.step()
    assert any("l1 does not answer as it should" in note for note in told.notes)
    l1.changes.clear()
    await watch.step()
    assert "l1 answers again" in told.notes and len(told.games) == 1


async def test_a_game_that_the_node_refuses_holds_up_no_other(
    l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told
) -> None:
    side.failing_games = {5}
    l1.game(ROOT, 5)
    l1.game(ROOT, 6)
    watch = _watch(reader, side, told)
    await watch.step()
    assert [text.partition(":")[0] for text in told.games] == ["agree"]
    assert "node answers: error -32000: busy" in watch.pages.html()
    side.failing_games = set()
    await watch.step()
    assert len(told.games) == 2


async def test_a_supernode_ignores_output_roots(l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told) -> None:
    side.is_supernode = True
    l1.game(ROOT, 5)
    await _watch(reader, side, told).step()
    assert told.games[0].startswith("ignored: ") and side.asked == []


async def test_a_reorg_takes_its_games_away(l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told) -> None:
    watch = _watch(reader, side, told)
    await watch.step()
    l1.mine()
    await watch.step()
    l1.game(WRONG, 5)
    await watch.step()
    l1.backend.reorg(1)
    await watch.step()
    assert any("is gone: L1 was reorganized" in note for note in told.notes)
    assert len(watch.book) == 1, "its transaction is in the new head"


async def test_the_anchor_is_compared(l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told) -> None:
    watch = _watch(reader, side, told)
    await watch.step()
    assert not any("anchor" in note for note in told.notes), "it is not set"
    for root, expected in ((ROOT, "agree: the anchor "), (WRONG, "disagree: the anchor ")):
        l1.mine((ANCHOR, set_anchor_call(root, 9)))
        await watch.step()
        assert any(note.startswith(expected) for note in told.notes)
    assert watch.has_disagreement and b"rollup_node_watch_anchor_agrees 0.0" in watch.pages.metrics()


async def test_a_proof_of_the_node_is_used(l1: L1WithGames, reader: L1Reader, side: FakeSide, told: Told) -> None:
    block = l1.game(ROOT, 5)
    side.proven = block.header.number, block.hash
    watch = _watch(reader, side, told, as_json=True)
    await watch.step()
    shown: Any = json.loads(told.games[0])
    assert shown["proven"] and "L1 is proven: by the node's checkpoint" in told.notes
    side.proven = None
    l1.game(ROOT, 6)
    await watch.step()
    assert not json.loads(told.games[1])["proven"]
