"""The server of `watch`: three paths, GET only."""

import asyncio
import socket

import msgspec
import pytest

from rollup_node.stages.io.http.client import HttpClient
from rollup_node.tools.watch.games import Game, GameBook, Judgement, Verdict, record
from rollup_node.tools.watch.server import HELP, MAX_ROWS, Pages, WatchMetrics, page, serving
from tests.support.processes.programs import http_get
from tests.support.servers.loopback import own_address

GAUGED = Game("0x" + "aa" * 20, 0, 1_700_000_000, "0x00", "0x00", 100, 50)


def test_games_are_counted_by_verdict() -> None:
    metrics, book = WatchMetrics("v1"), GameBook()
    verdicts = (Verdict.AGREE, Verdict.AGREE, Verdict.DISAGREE, Verdict.IGNORED, Verdict.NOT_YET)
    for index, verdict in enumerate(verdicts):
        game = msgspec.structs.replace(
            GAUGED, proxy=str(index), timestamp=GAUGED.timestamp + index, l2_sequence_number=index
        )
        book.add(game)
        book.judge(game, Judgement(verdict))
    metrics.show(book)
    lines = metrics.text().decode().splitlines()
    assert 'rollup_node_watch_games{verdict="agree"} 2.0' in lines
    assert 'rollup_node_watch_games{verdict="disagree"} 1.0' in lines
    assert 'op_dispute_mon_latest_proposal{root_agreement="agree"} 1.700000001e+09' in lines
    assert 'op_dispute_mon_latest_proposal{root_agreement="disagree"} 1.700000002e+09' in lines
    assert "op_dispute_mon_latest_valid_proposal_l2_block 1.0" in lines
    assert "op_dispute_mon_ignored_games 1.0" in lines
    assert "op_dispute_mon_node_endpoint_out_of_sync_count 1.0" in lines


def test_every_gauge_is_exposed_from_the_start() -> None:
    text = WatchMetrics("v1").text().decode()
    assert all(f"# TYPE {name} gauge" in text for name in HELP)
    assert 'op_dispute_mon_info{version="v1"} 1.0' in text and "rollup_node_watch_anchor_agrees -1.0" in text


PAGES = Pages(lambda: "<p>page</p>", lambda: b"[]", lambda: b"up 1\n")


async def test_pages_are_served() -> None:
    async with serving(PAGES, own_address(), 0) as port:
        url = f"http://{own_address()}:{port}"
        for path, expected in (("/", "<p>page</p>"), ("/games.json", "[]"), ("/metrics", "up 1\n")):
            assert await asyncio.to_thread(http_get, url + path) == (200, expected)
        client = HttpClient(url, "test")
        status, _, _ = await client.post(b"{}", 5.0, 1000)
        assert status == 405
        await client.close()


async def test_a_port_in_use_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind((own_address(), 0))
        taken.listen()
        with pytest.raises(OSError):
            async with serving(PAGES, own_address(), taken.getsockname()[1]):
                pass


HOSTILE = "<script>alert(1)</script>"
GAME = Game("0x" + "aa" * 20, 0, 1_700_000_000, "0x11", "0x00", 100, 50)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_game_is_a_row(verdict: Verdict) -> None:
    text = page("all is well", [record(GAME, Judgement(verdict, "0x22", HOSTILE))])
    assert f"<td>{verdict.value}</td>" in text and GAME.proxy in text and "2023-11-14T22:13:20Z" in text
    assert HOSTILE not in text and "&lt;script&gt;" in text


def test_texts_are_escaped_and_rows_are_bounded() -> None:
    text = page(HOSTILE, [record(GAME, Judgement(Verdict.AGREE))] * (MAX_ROWS + 3))
    assert HOSTILE not in text and text.count("<tr class=") == MAX_ROWS and "3 older games are not shown" in text
