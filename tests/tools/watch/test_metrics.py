"""The gauges of `watch` [WAT10]."""

import msgspec

from rollup_node.tools.watch.games import Game, GameBook, Judgement, Verdict
from rollup_node.tools.watch.metrics import HELP, WatchMetrics

GAME = Game("0x" + "aa" * 20, 0, 1_700_000_000, "0x00", "0x00", 100, 50)


def test_games_are_counted_by_verdict() -> None:
    metrics, book = WatchMetrics("v1"), GameBook()
    verdicts = (Verdict.AGREE, Verdict.AGREE, Verdict.DISAGREE, Verdict.IGNORED, Verdict.NOT_YET)
    for index, verdict in enumerate(verdicts):
        game = msgspec.structs.replace(
            GAME, proxy=str(index), timestamp=GAME.timestamp + index, l2_sequence_number=index
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
