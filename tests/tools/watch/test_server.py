"""The server of `watch`: three paths, GET only."""

import asyncio
import socket

import pytest

from rollup_node.stages.io.http.client import HttpClient
from rollup_node.tools.watch.games import Game, Judgement, Verdict, record
from rollup_node.tools.watch.server import MAX_ROWS, Pages, page, serving
from tests.support.processes.programs import http_get
from tests.support.servers.loopback import own_address

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
