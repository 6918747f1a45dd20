"""An L1 without batches has a code, with what came to the inbox instead [LOG16]. What batches ahead of
derivation name as their parents [UPG24]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.derivation.codec.batches import DecodedBatch, RejectedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.process.batch_watch import (
    INTERVALS,
    MANY_REPEATS,
    MAX_CHANNELS,
    MAX_PARENTS,
    BatchParents,
    BatchWatch,
    UpgradeWatch,
)
from rollup_node.stages.derivation.reasons.batches import ParentHashMismatch, SpanParentMismatch, SpanPast
from rollup_node.stages.derivation.reasons.channels import SpanTransactionInvalid
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.messages.engine import AttributesAhead, AttributesReady, BatchParent
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import PROVEN_SECONDS, load_bundle
from tests.stages.derivation.process.test_derivation_log import RecordingLogger
from tests.support.chains.chain_fixture import ALL_FORKS, GENESIS_TIME, ChainFixture, chain_with
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

WINDOW = 200
LIMIT = WINDOW // 10
STRANGER, BATCHER, H = b"\7" * 20, b"\1" * 20, b"\1" * 32


def block(number: int) -> L1BlockRef:
    return L1BlockRef(number.to_bytes(32, "big"), number, H, number * 12)


def epoch(number: int) -> BlockId:
    return BlockId(number, H)


class Watched:
    """A watch that starts at L1 block 100, and what it logs."""

    def __init__(self) -> None:
        self.lines = RecordingLogger()
        self.watch = BatchWatch(WINDOW, self.lines)
        self.watch.restart(epoch(100))

    def read(self, first: int, last: int) -> None:
        """Read L1 blocks, both included."""
        for number in range(first, last + 1):
            self.watch.at_block(block(number))

    def drop(self, reason: object, at: int) -> None:
        self.watch.dropped(Dropped(DropEffect.DROPPED, reason, block(at)))  # type: ignore[arg-type]


@pytest.mark.sign("NO-BATCHES", line=True, readyz=True)
def test_blocks_without_batches_are_said_once_with_what_came_instead() -> None:
    watched = Watched()
    watched.read(90, 100 + LIMIT - 1)
    watched.drop(SenderNotBatcher(STRANGER, BATCHER), 105)
    watched.drop(SenderNotBatcher(STRANGER, BATCHER), 106)
    watched.drop(ParentHashMismatch(H, H), 106)
    assert watched.lines.lines == [] and watched.watch.problem is None
    watched.read(100 + LIMIT, 100 + LIMIT + 5)
    ((_, text, fields),) = watched.lines.lines
    assert "no batch" in text and fields["code"] == "NO-BATCHES" and fields["l1_blocks"] == LIMIT
    assert fields["window_left"] == WINDOW - LIMIT and fields["do"] == Code.NO_BATCHES.remedy
    assert fields["other_senders"] == f"0x{STRANGER.hex()} (2)"
    assert str(fields["dropped"]).endswith("parent_hash_mismatch (1)")
    watched.read(100 + LIMIT + 6, 100 + WINDOW // 2 - 1)
    assert watched.watch.problem is None
    watched.read(100 + WINDOW // 2, 100 + WINDOW // 2)
    assert str(watched.watch.problem) == (
        f"NO-BATCHES: no batch was accepted in the last {WINDOW // 2} L1 blocks,"
        f" {WINDOW // 2} of the sequencing window are left"
    )
    assert watched.watch.derived(epoch(101), block(230))
    _, text, fields = watched.lines.lines[-1]
    assert "accepted again" in text and "tried" not in fields and watched.watch.problem is None
    watched.read(231, 230 + LIMIT)
    assert "other_senders" not in watched.lines.lines[-1][2] and len(watched.lines.lines) == 3


def test_blocks_that_the_end_of_the_window_made_are_no_batches() -> None:
    watched = Watched()
    watched.read(101, 100 + WINDOW + 1)
    assert not watched.watch.derived(epoch(101), block(100 + WINDOW + 1))
    assert watched.watch.problem is not None and "blocks are empty" in watched.watch.problem.text
    assert len(watched.lines.lines) == 1


def test_the_interval_is_the_longest_of_the_last_between_l1_blocks_with_batches() -> None:
    """[MET29] With 12 s between L1 blocks."""
    watch = Watched().watch
    result: list[int | None] = []
    for number in (101, 101, 111, 116, 450, *range(451, 451 + INTERVALS)):
        watch.derived(epoch(100 if number < 200 else number - 1), block(number))
        result.append(watch.interval)
    assert result[:5] == [None, None, 120, 120, 334 * 12]
    assert result[-2:] == [334 * 12, 12]
    watch.restart(epoch(90))
    watch.derived(epoch(90), block(95))
    assert watch.interval == 12, "what is read again is no interval"
    watch.derived(epoch(90), block(90 + WINDOW))
    assert watch.interval == 12, "the end of the window is no batch"


def test_after_a_start_batches_of_the_past_count() -> None:
    watched = Watched()
    watched.read(90, 110)
    watched.drop(SpanPast(1, 2), 110)
    watched.read(111, 110 + LIMIT - 1)
    assert watched.lines.lines == []
    watched.read(110 + LIMIT, 110 + LIMIT)
    assert len(watched.lines.lines) == 1
    watched.watch.restart(epoch(110 + LIMIT))
    assert watched.watch.problem is None


def test_the_senders_that_are_kept_are_few() -> None:
    watched = Watched()
    for number in range(10_000):
        watched.drop(SenderNotBatcher(number.to_bytes(20, "big"), BATCHER), 101)
    watched.read(100 + LIMIT, 100 + LIMIT)
    assert str(watched.lines.lines[0][2]["other_senders"]).count("0x") == 3
    assert len(watched.watch._senders) == 16


HASH = b"\1" * 32
CROSSES = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"lagoon": 1000})
GIVEN = msgspec.structs.replace(
    CROSSES,
    bundles={"lagoon": msgspec.structs.replace(load_bundle("lagoon"), origin="file x", confirmed_by="the operator")},
)
CONFIRMED = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"karst": 1000})
BEFORE, AFTER, LONG_AFTER = (
    L2BlockRef(HASH, time // 2, HASH, time, BlockId(1, HASH), 0) for time in (998, 1000, 1000 + PROVEN_SECONDS)
)
MISMATCHES: tuple[Reason, ...] = (ParentHashMismatch(HASH, HASH), SpanParentMismatch(HASH[:20], HASH))


def watched(config: RollupConfig, safe: L2BlockRef, *reasons: Reason) -> tuple[UpgradeWatch, RecordingLogger]:
    lines = RecordingLogger()
    watch = UpgradeWatch(config, lines)
    for reason in reasons:
        watch.dropped(Dropped(DropEffect.DROPPED, reason, None), safe)
    return watch, lines


@pytest.mark.parametrize("config", [CROSSES, GIVEN], ids=["unconfirmed", "given"])
def test_batches_with_another_parent_after_the_fork_are_a_problem_until_one_fits(config: RollupConfig) -> None:
    watch, lines = watched(config, AFTER, *MISMATCHES)
    assert str(watch.problem).startswith("BUNDLE-UNCONFIRMED: batches after the activation")
    ((_, text, fields),) = lines.lines
    assert "lagoon" in text and fields["bundle"] == load_bundle("lagoon").sha256
    watch.derived()
    assert watch.problem is None and lines.lines[-1][1] == "batches are accepted again"


def test_a_bundle_that_was_given_may_be_the_wrong_file() -> None:
    """A node that syncs from L1 alone does not see the sequencer's block [UPG24]."""
    watch, _ = watched(GIVEN, AFTER, MISMATCHES[0])
    assert watch.problem is not None and "(file x) is probably not the chain's, or the engine" in watch.problem.text


def test_other_drops_and_other_chains_are_none() -> None:
    for config, safe, reason in (
        (CROSSES, BEFORE, MISMATCHES[0]),
        (CROSSES, AFTER, SenderNotBatcher(HASH[:20], HASH[:20])),
        (CROSSES, LONG_AFTER, MISMATCHES[0]),
        (CONFIRMED, AFTER, MISMATCHES[0]),
        (PLAIN_ROLLUP, AFTER, MISMATCHES[0]),
    ):
        watch, lines = watched(config, safe, reason)
        watch.derived()
        assert watch.problem is None and lines.lines == []


@pytest.fixture
def chain() -> ChainFixture:
    """Lagoon activates in its first block."""
    return chain_with({**dict.fromkeys((*ALL_FORKS, "karst"), 0), "lagoon": GENESIS_TIME + 2})


def ready(chain: ChainFixture) -> AttributesReady:
    attributes = chain.attributes(chain.genesis, 100)
    return AttributesReady(1, 1, chain.genesis, attributes, chain.l1_ref(101), True)


def singular(number: int, parent: bytes, off: int = 0) -> SingularBatch:
    return SingularBatch(parent, 100, bytes(32), GENESIS_TIME + 2 * number + off, ())


def span(number: int, parent: bytes) -> SpanBatch:
    return SpanBatch(parent, bytes(20), GENESIS_TIME + 2 * number, 2, 1, 100, 100, b"\0", b"\0", ())


def named(chain: ChainFixture, *channels: tuple[DecodedBatch, ...]) -> Any:
    result = {bytes([index]): DecodedChannel(batches, None) for index, batches in enumerate(channels)}
    parents = BatchParents(chain.rollup, result.get)
    for key in (*result, b"not decoded yet"):
        parents.add(key)
        parents.add(key)
    (message,) = parents.attach([ready(chain)])
    assert isinstance(message, AttributesReady)
    return message.parents


def test_hashes_and_checks_from_the_activation_block_on(chain: ChainFixture) -> None:
    result = named(
        chain,
        (span(1, b"\x01" * 20), span(9, b"\x09" * 20), RejectedBatch(SpanTransactionInvalid(0, "of type 5"))),
        (singular(2, b"\x02" * 32), singular(2, b"\x02" * 32)),
    )
    assert result == (BatchParent(1, b"\x02" * 32), BatchParent(8, b"\x09" * 20))


def test_times_between_blocks_and_before_the_chain_name_nothing(chain: ChainFixture) -> None:
    assert named(chain, (singular(4, b"\x01" * 32, off=1), singular(0, b"\x01" * 32), singular(-3, b"\x01" * 32))) == ()


def test_they_are_bounded(chain: ChainFixture) -> None:
    many = tuple(singular(number, b"\x01" * 32) for number in range(2, 2 * MAX_PARENTS))
    assert [item.number for item in named(chain, many)] == list(range(1, MAX_PARENTS + 1))
    parents = BatchParents(chain.rollup, lambda key: DecodedChannel((singular(2, key),), None))
    for index in range(MAX_CHANNELS + 5):
        parents.add(index.to_bytes(32, "big"))
    (message,) = parents.attach([ready(chain)])
    assert isinstance(message, AttributesReady) and len(message.parents) == MAX_PARENTS
    assert message.parents[0].hash == (5).to_bytes(32, "big")


def test_other_messages_and_blocks_are_left_alone(chain: ChainFixture) -> None:
    parents = BatchParents(chain.rollup, lambda key: DecodedChannel((singular(2, key),), None))
    parents.add(b"\x01" * 32)
    later = msgspec.structs.replace(ready(chain).attributes, timestamp=GENESIS_TIME + 4)
    messages = [msgspec.structs.replace(ready(chain), attributes=later), AttributesAhead((ready(chain),))]
    assert parents.attach(messages) == messages


def test_a_new_start_forgets_the_channels_before(chain: ChainFixture) -> None:
    parents = BatchParents(chain.rollup, lambda key: DecodedChannel((singular(2, key),), None))
    parents.add(b"\x01" * 32)
    parents.restart()
    assert parents.attach([ready(chain)]) == [ready(chain)]


def test_attributes_that_are_repeated_for_long_are_waited_for(chain: ChainFixture) -> None:
    parents, derived = BatchParents(chain.rollup, lambda key: None), ready(chain)
    for _ in range(MANY_REPEATS - 1):
        parents.attach([derived])
    assert not parents.waits(derived) and not parents.waits(None)
    parents.attach([derived])
    assert parents.waits(derived) and not parents.waits(msgspec.structs.replace(derived, sequence=2))
    parents.restart()
    assert not parents.waits(derived)


def test_channels_before_the_one_that_is_read_count_no_more(chain: ChainFixture) -> None:
    """[UPG24] After an L1 reorg its first blocks have batches of blocks that the sequencer has replaced."""
    parents = BatchParents(chain.rollup, lambda key: DecodedChannel((singular(2, key * 32),), None))

    def names() -> list[bytes]:
        (message,) = parents.attach([ready(chain)])
        assert isinstance(message, AttributesReady)
        return [parent.hash[:1] for parent in message.parents]

    for key in (b"1", b"2", b"3"):
        parents.add(key)
    parents.read(b"0")
    assert names() == [b"0", b"1", b"2", b"3"], "it was open before the others were followed"
    parents.read(b"2")
    assert names() == [b"2", b"3"]
    parents.read(b"4")
    assert names() == [b"3", b"4"]
