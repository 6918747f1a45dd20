"""What a watch says of the claims on an L1 in memory by a node that the test answers for [WAT2, WAT4 to WAT10]."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest

from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.games import ANCHOR, set_anchor_call
from rollup_node.tools.watch import server
from rollup_node.tools.watch.games import INVALID_TRANSITION, MAX_SEQUENCE, Game, GameBook
from rollup_node.tools.watch.l1_reader import L1Reader
from rollup_node.tools.watch.node_reader import own_side
from rollup_node.tools.watch.server import HELP, WatchMetrics, serving
from rollup_node.tools.watch.service import Output, Watch
from tests.support.chains.l1_with_games import GENESIS_TIME, ROOT, L1WithGames, NodeWithRoots, super_root_answer
from tests.support.processes.programs import http_get
from tests.support.servers.http_listener import listening
from tests.support.servers.loopback import own_address

WRONG = b"\x22" * 32
OUTPUT, SAFE_HEAD, SUPER = "optimism_outputAtBlock", "optimism_safeHeadAtL1Block", "superroot_atTimestamp"


def error(message: str) -> JsonRpcError:
    return JsonRpcError(-32000, message)


class Watched(NamedTuple):
    """A watch, and what it has written: of games, and notes."""

    watch: Watch
    games: list[str]
    notes: list[str]

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The games on its page, the newest first."""
        result: list[dict[str, Any]] = json.loads(self.watch.pages.json())
        return result


NewWatch = Callable[..., Awaitable[Watched]]


@pytest.fixture
async def new_watch(reader: L1Reader, node: NodeWithRoots) -> AsyncIterator[NewWatch]:
    """Make a watch of L1 by the node, as that is now."""
    async with AsyncExitStack() as stack:

        async def make(as_json: bool = False) -> Watched:
            (url,) = await stack.enter_async_context(listening(node.app()))
            side = await own_side(url)
            stack.push_async_callback(side.close)
            games, notes = list[str](), list[str]()
            output = Output(games.append, notes.append, as_json)
            watch = Watch(reader, side, WatchMetrics("v1"), output, 1000.0, lambda: float(GENESIS_TIME + 100))
            return Watched(watch, games, notes)

        yield make


EQUAL = "(the roots are equal)"
NOTHING = "ours is none (nothing is derived there from the L1 data up to the game's L1 head)"
LATE = "ours is none (the roots are equal, but it does not follow from L1 up to the game's L1 head 0)"


@pytest.mark.parametrize(
    ("changes", "claim", "verdict", "text"),
    [
        ({}, (ROOT, 50), "agree", EQUAL),
        ({SAFE_HEAD: error("disabled")}, (ROOT, 50), "agree", "whether it was safe by then is unknown)"),
        ({SAFE_HEAD: {"safeHead": {"number": 49}}}, (ROOT, 50), "disagree", LATE),
        (
            {OUTPUT: {"outputRoot": to_hex(WRONG)}},
            (ROOT, 50),
            "disagree",
            f"ours is {to_hex(WRONG)} (the roots differ)",
        ),
        ({OUTPUT: error("block Not Found")}, (ROOT, 50), "disagree", NOTHING),
        ({}, (ROOT, 61), "disagree", NOTHING),
        ({}, (ROOT, MAX_SEQUENCE + 1), "disagree", "ours is none (no block or time has such a number)"),
        ({}, (ROOT, 50, 77), "ignored", "(game type 77 is unknown here)"),
        ({}, (ROOT, 50, 4), "agree", f"super root of time 50 {EQUAL}"),
        ({SUPER: super_root_answer(1)}, (ROOT, 50, 4), "disagree", LATE),
        ({SUPER: {"current_l1": {"number": 99}}}, (ROOT, 50, 4), "disagree", NOTHING),
        ({SUPER: error("x: did not reach genesis time (5) yet")}, (ROOT, 50, 4), "disagree", NOTHING),
    ],
)
async def test_the_verdict_by_what_the_node_says(
    changes: dict[str, Any],
    claim: tuple[Any, ...],
    verdict: str,
    text: str,
    l1: L1WithGames,
    node: NodeWithRoots,
    new_watch: NewWatch,
) -> None:
    node.answers |= changes
    l1.game(*claim)
    watched = await new_watch()
    await watched.watch.step()
    (line,) = watched.games
    (shown,) = watched.shown
    kind = f"type {shown['gameType']} claims {to_hex(ROOT)} as the "
    assert line.startswith(f"{verdict}: game {shown['proxy']} {kind}") and line.endswith(text)
    assert shown["verdict"] == verdict and shown["l2SequenceNumber"] == min(claim[1], MAX_SEQUENCE)


async def test_claims_are_told_once_and_shown(l1: L1WithGames, new_watch: NewWatch) -> None:
    watched = await new_watch()
    watch = watched.watch
    text = watch.pages.metrics().decode()
    assert all(f"# TYPE {name} gauge" in text for name in HELP) and 'op_dispute_mon_info{version="v1"} 1.0' in text
    l1.game(ROOT, 5)
    await watch.step()
    assert watch.is_caught_up and not watch.has_disagreement
    l1.game(WRONG, 6)
    l1.game(ROOT, 7, 77)
    await watch.step()
    await watch.step()
    assert [text.partition(":")[0] for text in watched.games] == ["agree", "disagree", "ignored"]
    assert watch.has_disagreement and "1 agree, 1 disagree, 0 not yet, 1 ignored" in watch.summary
    assert "L1 is NOT proven" in watched.notes[0]
    async with serving(watch.pages, own_address(), 0) as port:
        url = f"http://{own_address()}:{port}"
        pages = [await asyncio.to_thread(http_get, url + path) for path in ("/", "/games.json", "/metrics")]
        client = HttpClient(url, "test")
        assert (await client.post(b"{}", 5.0, 1000))[0] == 405
        await client.close()
    assert [status for status, _ in pages] == [200] * 3
    assert "<td>disagree</td><td>2023-11-14T22:13:22Z</td>" in pages[0][1]
    assert [item["verdict"] for item in json.loads(pages[1][1])] == ["ignored", "disagree", "agree"]
    lines = pages[2][1].splitlines()
    assert 'rollup_node_watch_games{verdict="agree"} 1.0' in lines and "op_dispute_mon_ignored_games 1.0" in lines
    assert f'op_dispute_mon_latest_proposal{{root_agreement="disagree"}} {GENESIS_TIME + 2.0:.9e}' in lines
    assert "op_dispute_mon_latest_valid_proposal_l2_block 5.0" in lines and "op_dispute_mon_up 1.0" in lines
    assert "rollup_node_watch_anchor_agrees -1.0" in lines


async def test_json_has_what_is_missing(l1: L1WithGames, node: NodeWithRoots, new_watch: NewWatch) -> None:
    status = node.answers["optimism_syncStatus"]
    node.answers["optimism_syncStatus"] = status | {"current_l1": {"number": 1}}
    l1.mine()
    block = l1.game(WRONG, 6)
    watched = await new_watch(as_json=True)
    await watched.watch.step()
    assert watched.games == [], "not yet is what it was before"
    assert watched.shown[0]["missing"] == "the node has read L1 up to block 1, the claim is about L1 block 1"
    assert b"op_dispute_mon_node_endpoint_out_of_sync_count 1.0" in watched.watch.pages.metrics()
    node.answers["optimism_syncStatus"] = status
    await watched.watch.step()
    (text,) = watched.games
    assert json.loads(text) == {
        "proxy": watched.shown[0]["proxy"],
        "gameType": 0,
        "timestamp": block.header.timestamp,
        "l1Head": to_hex(block.header.parent_hash),
        "l1HeadNum": 1,
        "l2SequenceNumber": 6,
        "rootClaim": to_hex(WRONG),
        "verdict": "disagree",
        "agreeWithClaim": False,
        "expectedRootClaim": to_hex(ROOT),
        "reason": "the roots differ",
        "missing": "",
        "proven": False,
    }


async def test_a_super_root_of_an_older_l1_block_waits(
    l1: L1WithGames, node: NodeWithRoots, new_watch: NewWatch
) -> None:
    node.answers[SUPER] = super_root_answer(0, current=0)
    l1.game(ROOT, 5, 4)
    watched = await new_watch()
    await watched.watch.step()
    assert watched.games == [] and "read L1 up to block 0, " in watched.shown[0]["missing"]


async def test_a_claim_is_judged_again_until_l1_is_final(
    l1: L1WithGames, node: NodeWithRoots, new_watch: NewWatch
) -> None:
    watched = await new_watch()
    l1.game(ROOT, 5)
    for root, finalized, said in ((ROOT, 0, ["agree"]), (WRONG, 0, ["agree", "disagree"]), (ROOT, 1, [])):
        node.answers[OUTPUT] = {"outputRoot": to_hex(root)}
        node.answers["optimism_syncStatus"]["finalized_l1"] = {"number": finalized}
        await watched.watch.step()
        assert [text.partition(":")[0] for text in watched.games] == (said or ["agree", "disagree"])
    assert watched.watch.has_disagreement


async def test_a_node_that_fails_is_asked_again(l1: L1WithGames, node: NodeWithRoots, new_watch: NewWatch) -> None:
    l1.game(WRONG, 6)
    watched = await new_watch()
    answer, node.answers["optimism_syncStatus"] = node.answers["optimism_syncStatus"], error("busy")
    for _ in range(3):
        await watched.watch.step()
    assert not watched.watch.is_caught_up and "node fails: " in watched.watch.summary
    assert sum("does not answer" in note for note in watched.notes) == 1, "said once"
    assert b'rollup_node_watch_failing{endpoint="node"} 1.0' in watched.watch.pages.metrics()
    node.answers["optimism_syncStatus"] = answer
    await watched.watch.step()
    assert "node answers again" in watched.notes and len(watched.games) == 1


async def test_l1_that_fails_is_asked_again(l1: L1WithGames, new_watch: NewWatch) -> None:
    watched = await new_watch()
    l1.changes["eth_call"] = lambda answer: "0x"
    l1.game(WRONG, 6)
    await watched.watch.step()
    assert any("l1 does not answer as it should" in note for note in watched.notes)
    l1.changes.clear()
    await watched.watch.step()
    assert "l1 answers again" in watched.notes and len(watched.games) == 1


@pytest.mark.parametrize(("method", "game_type"), [(OUTPUT, 0), (SUPER, 4)])
async def test_a_game_that_the_node_refuses_holds_up_no_other(
    method: str, game_type: int, l1: L1WithGames, node: NodeWithRoots, new_watch: NewWatch
) -> None:
    """What the node says of it is shown as text."""
    l1.game(ROOT, 5, game_type)
    l1.game(ROOT, 6, 4 - game_type)
    watched = await new_watch()
    answer, node.answers[method] = node.answers[method], error("busy <script>alert(1)</script>")
    await watched.watch.step()
    assert [text.partition(":")[0] for text in watched.games] == ["agree"]
    html = watched.watch.pages.html()
    assert (
        "answers: error -32000: busy &lt;script&gt;" in html and "<script>" not in html and "<td>not yet</td>" in html
    )
    node.answers[method] = answer
    await watched.watch.step()
    assert len(watched.games) == 2


async def test_a_supernode_has_super_roots_alone(l1: L1WithGames, node: NodeWithRoots, new_watch: NewWatch) -> None:
    """Of its L1 blocks it does not say which are final."""
    node.answers = {"supernode_syncStatus": {"current_l1": {"number": 101}}, SUPER: super_root_answer(0)}
    for number, game_type in ((5, 0), (6, 4)):
        l1.game(ROOT, number, game_type)
    l1.mine((ANCHOR, set_anchor_call(ROOT, 9)))
    watched = await new_watch()
    await watched.watch.step()
    assert [text.partition(":")[0] for text in watched.games] == ["ignored", "agree"]
    assert "agree: the anchor " in watched.notes[-1]
    node.answers[SUPER] = super_root_answer(1)
    await watched.watch.step()
    assert watched.games[2:] == [], "its L1 head is 96 blocks old"


async def test_a_reorg_takes_its_games_away(l1: L1WithGames, new_watch: NewWatch) -> None:
    watched = await new_watch()
    await watched.watch.step()
    l1.mine()
    await watched.watch.step()
    l1.game(WRONG, 5)
    await watched.watch.step()
    l1.backend.reorg(1)
    await watched.watch.step()
    assert any("is gone: L1 was reorganized" in note for note in watched.notes)
    assert len(watched.watch.book) == 1, "its transaction is in the new head"


async def test_the_anchor_is_compared(l1: L1WithGames, new_watch: NewWatch) -> None:
    watched = await new_watch()
    await watched.watch.step()
    assert not any("anchor" in note for note in watched.notes), "it is not set"
    for root, expected in ((ROOT, "agree: the anchor "), (WRONG, "disagree: the anchor ")):
        l1.mine((ANCHOR, set_anchor_call(root, 9)))
        await watched.watch.step()
        assert any(note.startswith(expected) for note in watched.notes)
    assert watched.watch.has_disagreement
    assert b"rollup_node_watch_anchor_agrees 0.0" in watched.watch.pages.metrics()


async def test_a_proof_of_the_node_is_used(l1: L1WithGames, node: NodeWithRoots, new_watch: NewWatch) -> None:
    node.proof = l1.game(ROOT, 5)
    watched = await new_watch(as_json=True)
    await watched.watch.step()
    assert json.loads(watched.games[0])["proven"] and "L1 is proven: by the node's checkpoint" in watched.notes
    node.proof = None
    l1.game(ROOT, 6)
    await watched.watch.step()
    assert not json.loads(watched.games[1])["proven"]


async def test_the_oldest_games_leave_and_are_not_shown(
    l1: L1WithGames, new_watch: NewWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_ROWS", 1)
    watched = await new_watch()
    for number in range(3):
        l1.game(ROOT, number)
    await watched.watch.step()
    html = watched.watch.pages.html()
    assert html.count("<tr class=") == 1 and "2 older games are not shown" in html
    book = GameBook(most=2)
    games = [Game(f"0x{index}", 0, 0, "", INVALID_TRANSITION, 0, index) for index in range(3)]
    for game in games:
        book.add(game)
    assert [game for game, _ in book] == games[1:]
