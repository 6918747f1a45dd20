"""The page of `watch`: what comes from L1 or a node is text in it, never markup."""

import pytest

from rollup_node.tools.watch.games import Game, Judgement, Verdict, record
from rollup_node.tools.watch.page import MAX_ROWS, page

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
