"""Safe chain, epochs, cursors, results, pacing and the journal."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.derivation.batches import SpanBatch, SpanCursor
from rollup_node.stages.derivation.epochs import Epochs
from rollup_node.stages.derivation.journal import LONG_WAIT, Journal
from rollup_node.stages.derivation.needs import NeedDecoded, NeedL1Block, NeedL2Blocks
from rollup_node.stages.derivation.pacer import Pacer
from rollup_node.stages.derivation.reasons import Dropped, Effect, Why
from rollup_node.stages.derivation.results import ResultCache
from rollup_node.stages.derivation.safe_chain import PIECE, SafeBlock, SafeChain, transactions_digest
from rollup_node.stages.derivation.span_batch import SpanRules
from rollup_node.stages.derivation.tasks import DecodeChannel, DecodedChannel
from rollup_node.stages.metrics import Meter


def test_the_safe_chain_is_asked_for_in_pieces(made: Any) -> None:
    world = made.World({})
    world.extend(100, 0, b"\x02user")
    chain = SafeChain()
    assert chain.find(5, 90) == NeedL2Blocks(5, 5 + PIECE - 1)
    blocks = [world.chain[number] for number in range(5, 5 + PIECE)]
    assert not chain.add(5, 90, blocks)
    assert not chain.add(5, 5 + PIECE - 1, blocks[1:])
    assert chain.add(5, 5 + PIECE - 1, blocks)
    found = chain.find(6, 90)
    assert isinstance(found, SafeBlock)
    assert (found.ref, found.users, found.digest) == (world.chain[6].ref, 1, transactions_digest([b"\x02user"]))
    assert chain.find(5 + PIECE, 90) == NeedL2Blocks(5 + PIECE, 90)
    assert chain.add(5 + PIECE, 90, None)
    assert chain.find(70, 90) is None
    chain.begin()
    assert chain.find(70, 90) == NeedL2Blocks(70, 90)
    chain.clear()
    assert chain.find(6, 6) == NeedL2Blocks(6, 6)


def test_digests_of_different_lists_differ() -> None:
    assert transactions_digest([b"ab", b"c"]) != transactions_digest([b"a", b"bc"])


def _head(world: Any, number: int, epoch: int) -> Any:
    origin = world.l1(epoch).ref.id
    return msgspec.structs.replace(world.safe, number=number, timestamp=1000 + 2 * number, l1_origin=origin)


def test_epochs_are_noted_and_forgotten(made: Any) -> None:
    world = made.World({})
    epochs = Epochs(world.l1(0))
    assert not epochs.observe(world.l1(0), _head(world, 0, 0))
    for number in (1, 2, 3):
        epochs.observe(world.l1(number), _head(world, 0, 0))
    assert [block.header.number for block in epochs.blocks] == [0, 1, 2, 3]
    epochs.observe(world.l1(3), _head(world, 20, 2))
    assert (epochs.first_number, len(epochs)) == (2, 2)
    assert epochs.observe(world.l1(4), _head(world, 99, 5)), "behind"
    assert epochs.blocks == []
    assert not epochs.observe(world.l1(5), _head(world, 99, 5))
    assert epochs.first_number == 5
    assert epochs.block(4) is None


def test_origin_that_is_only_equal_by_number_does_not_fit(made: Any) -> None:
    world = made.World({})
    epochs = Epochs(world.l1(0))
    head = _head(world, 0, 0)
    assert epochs.mismatch(head) is None
    stranger = msgspec.structs.replace(head, l1_origin=msgspec.structs.replace(head.l1_origin, hash=bytes(32)))
    assert epochs.mismatch(stranger) is not None


def test_cursor_reads_counts_of_any_width() -> None:
    span = SpanBatch(b"", b"", 10, 2, 3, 5, 6, b"\x04", b"\x80\x01\x00\x82\x80\x00", (b"x",) * 130)
    cursor = SpanCursor(span)
    blocks = [cursor.pop() for _ in range(4)]
    assert [len(block.transactions) for block in blocks if block] == [128, 0, 2]
    assert [block.epoch_number for block in blocks if block] == [5, 5, 6]
    assert [block.timestamp for block in blocks if block] == [10, 12, 14]
    assert blocks[3] is None


def test_results_are_bounded() -> None:
    cache = ResultCache(3000)
    for number in range(8):
        cache.put(b"%d" % number, DecodedChannel((), None))
        cache.get(b"0")
    assert b"0" in cache
    assert b"1" not in cache
    assert cache.bytes <= 3000


def test_pacer_repeats_after_its_interval() -> None:
    pacer = Pacer(0.3)
    assert pacer.due("a", 1, 10.0)
    assert not pacer.due("a", 1, 10.2)
    assert pacer.due("a", 2, 10.2), "something new is said at once"
    assert pacer.due("a", 2, 10.5)
    pacer.keep({"b"})
    assert pacer.due("a", 2, 10.5)


class Log:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def detail(self, message: str, /, **fields: object) -> None:
        self.lines.append(("detail", message))

    def debug(self, message: str, /, **fields: object) -> None:
        self.lines.append(("debug", message))

    def warn(self, message: str, /, **fields: object) -> None:
        self.lines.append(("warn", message))


@pytest.fixture
def journal() -> tuple[Journal, Log, Meter]:
    log, meter = Log(), Meter("derivation")
    return Journal(meter, log), log, meter


def test_every_drop_is_logged_and_counted(journal: tuple[Journal, Log, Meter]) -> None:
    book, log, meter = journal
    for why in Why:
        values = {place: 7 for place in ("origin", "number", "timestamp")}
        full = {name: 7 for name in __import__("re").findall(r"{(\w+)}", why.value.text)} | values
        book.dropped(Dropped(Effect.DROPPED, why(**full), None))
    book.dropped(Dropped(Effect.TIMED_OUT, Why.BANK_TIMEOUT(channel=b"x", opened=1, timeout=2), None))
    assert [level for level, _ in log.lines].count("debug") == 2, "only what is read again after every start"
    text = meter.text().decode()
    assert 'effect="timed_out",rule="CB2 bank_timeout"' in text
    assert "channel_timeout_total 1.0" in text


def test_long_waits_and_repeated_resets_are_problems(journal: tuple[Journal, Log, Meter]) -> None:
    book, _, _ = journal
    assert book.problems(NeedL1Block(5), None, None, 0.0) == []
    assert book.problems(NeedL1Block(5), None, None, LONG_WAIT + 1)[0].endswith("s for L1 block 5")
    task = DecodeChannel(b"", 1, True, SpanRules(1, 1, 1))
    assert book.problems(NeedDecoded(b"", task), None, None, 100.0) == []
    assert "reorg" in book.problems(None, "reorg", None, 100.0)[0]
    for _ in range(3):
        book.reset_wanted("reorg")
    assert "3 times" in book.problems(None, None, None, 100.0)[0]
    book.idle(True)
    assert book.problems(None, None, None, 100.0) == []


def test_a_stalled_queue_is_a_problem(made: Any, journal: tuple[Journal, Log, Meter]) -> None:
    book, _, _ = journal
    world = made.World({})
    reason = Why.SPAN_ORIGIN_UNKNOWN(epoch=9)
    book.at_block(world.l1(1).ref)
    assert book.problems(None, None, reason, 0.0) == []
    book.at_block(world.l1(60).ref)
    assert "held up the queue for 59" in book.problems(None, None, reason, 0.0)[0]
