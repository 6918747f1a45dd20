"""What we say of a claim [WAT4 to WAT8]."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.watch.games import (
    INVALID_TRANSITION,
    MAX_SEQUENCE,
    Game,
    GameBook,
    Judgement,
    Opinion,
    Verdict,
    judge,
    line,
    record,
    waits_for,
)

ROOT, OTHER = b"\x11" * 32, b"\x22" * 32
GAME = Game("0x" + "aa" * 20, 0, 1_700_000_000, "0x" + ROOT.hex(), "0x" + "bb" * 32, 100, 50, 101, "0x" + "cc" * 32)


@pytest.mark.parametrize(
    ("opinion", "verdict", "expected"),
    [
        (Opinion(101, ROOT, True), Verdict.AGREE, "0x" + ROOT.hex()),
        (Opinion(101, ROOT, None), Verdict.AGREE, "0x" + ROOT.hex()),
        (Opinion(101, ROOT, False), Verdict.DISAGREE, INVALID_TRANSITION),
        (Opinion(101, OTHER, True), Verdict.DISAGREE, "0x" + OTHER.hex()),
        (Opinion(101, None), Verdict.DISAGREE, INVALID_TRANSITION),
        (Opinion(100, OTHER), Verdict.NOT_YET, None),
    ],
)
def test_the_verdict_by_what_our_side_says(opinion: Opinion, verdict: Verdict, expected: str | None) -> None:
    judgement = judge(GAME, opinion)
    assert (judgement.verdict, judgement.expected_root_claim) == (verdict, expected)
    assert judgement.agree_with_claim is {Verdict.AGREE: True, Verdict.DISAGREE: False}.get(verdict)


@given(st.integers(0, 200), st.sampled_from([ROOT, OTHER, None]), st.sampled_from([True, False, None]))
def test_we_agree_only_with_our_own_root(current_l1: int, root: bytes | None, is_safe: bool | None) -> None:
    verdict = judge(GAME, Opinion(current_l1, root, is_safe)).verdict
    assert (verdict is Verdict.NOT_YET) == (current_l1 <= GAME.l1_head_num)
    assert verdict is not Verdict.AGREE or (root == ROOT and is_safe is not False)


def test_what_our_side_is_not_asked_about() -> None:
    unknown = waits_for(msgspec.structs.replace(GAME, game_type=77), 1000)
    assert unknown is not None and unknown.verdict is Verdict.IGNORED
    huge = waits_for(msgspec.structs.replace(GAME, l2_sequence_number=MAX_SEQUENCE + 1), 0)
    assert huge is not None and huge.verdict is Verdict.DISAGREE
    broken = waits_for(msgspec.structs.replace(GAME, problem="no such method"), 1000)
    assert broken is not None and (broken.verdict, broken.reason) == (Verdict.IGNORED, "no such method")
    early = waits_for(GAME, 99)
    assert early is not None and early.missing == (
        "the node has read L1 up to block 99, the claim is about L1 block 100"
    )
    assert waits_for(GAME, 101) is None


def test_a_game_is_shown_by_the_names_of_op_dispute_mon() -> None:
    judgement = judge(GAME, Opinion(101, OTHER))
    shown = record(GAME, judgement)
    assert shown["rootClaim"] == GAME.root_claim and shown["expectedRootClaim"] == "0x" + OTHER.hex()
    assert (shown["l1HeadNum"], shown["l2SequenceNumber"], shown["agreeWithClaim"]) == (100, 50, False)
    assert line(GAME, judgement) == (
        f"disagree: game {GAME.proxy} type 0 claims {GAME.root_claim} as the output root of block 50,"
        f" ours is 0x{OTHER.hex()} (the roots differ)"
    )
    assert record(msgspec.structs.replace(GAME, l2_sequence_number=1 << 255), judgement)["l2SequenceNumber"] == (
        MAX_SEQUENCE
    )
    assert "ours is none" in line(GAME, judge(GAME, Opinion(101, None)))
    assert "super root of time 50" in line(msgspec.structs.replace(GAME, game_type=4), judgement)
    assert line(GAME, Judgement(Verdict.NOT_YET, missing="x")).endswith("block 50 (x)")


def test_the_book_asks_again_until_l1_is_final() -> None:
    book = GameBook()
    book.add(GAME)
    book.add(msgspec.structs.replace(GAME, timestamp=0))
    assert len(book) == 1 and book.open(0) == [GAME]
    agree = Judgement(Verdict.AGREE, GAME.root_claim)
    assert book.judge(GAME, agree) and not book.judge(GAME, agree)
    assert book.open(100) == [GAME] and book.open(101) == []
    assert book.judge(GAME, Judgement(Verdict.DISAGREE, "0x00")) and book.count(Verdict.DISAGREE) == 1
    assert book.judge(GAME, Judgement(Verdict.NOT_YET)) and book.open(1000) == [GAME]
    book.judge(GAME, Judgement(Verdict.IGNORED))
    assert book.open(0) == []


def test_a_reorg_removes_the_games_of_its_blocks_and_many_games_push_out_the_oldest() -> None:
    book = GameBook(most=2)
    games = [msgspec.structs.replace(GAME, proxy=f"0x{index:040x}", block_hash=f"0x{index:064x}") for index in range(4)]
    for game in games:
        book.add(game)
    assert [game for game, _ in book] == games[2:]
    assert book.remove_blocks([games[3].block_hash, "0x00"]) == [games[3]]
    assert [game for game, _ in book] == [games[2]]
