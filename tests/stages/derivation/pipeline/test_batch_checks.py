"""derivation-rules 13 to 16 by their conformance ids.

The made-up chain has L1 blocks every 12 seconds from time 1000 on and L2 blocks every 2; the safe head is block 10 with
L1 origin 1, so that the next block's time is 1022. The window holds L1 blocks 1 to 4 unless a case says otherwise."""

from collections.abc import Sequence
from typing import Any

import pytest

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch, SpanCursor
from rollup_node.stages.derivation.codec.span_batch import SpanRules, decode_span
from rollup_node.stages.derivation.pipeline.batch_checks import BatchVerdict
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.pipeline.overlap_blocks import OverlapBlocks
from rollup_node.stages.derivation.pipeline.singular_checks import SingularBatchChecks
from rollup_node.stages.derivation.pipeline.span_checks import SpanBatchChecks
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.types import L1BlockRef

NEXT = 1022


class Scene:
    """A safe head, a window and an inclusion block; `judge` gives `judgement rule`."""

    def __init__(self, made: Any, forks: dict[str, int], window: Sequence[int] = (1, 2, 3, 4), **changes: Any) -> None:
        self.made = made
        self.world = made.World(forks, **changes)
        self.world.extend(5, 0, b"\x02old")
        self.world.extend(5, 1, b"\x02old")
        self.chain = OverlapBlocks()
        self.singular_checks = SingularBatchChecks(self.world.config, self.world.config.schedule())
        self.checks = SpanBatchChecks(self.world.config, self.world.config.schedule(), self.chain)
        self.l1_window = L1OriginWindow(self.world.l1(window[0] if window else 0))
        self.l1_window.blocks = [self.world.l1(number) for number in window]
        self.inclusion = 4
        self.has_l2 = True

    def _inclusion(self) -> L1BlockRef:
        return self.world.l1(self.inclusion).ref

    def judge(self, batch: Any, full: bool = True) -> str:
        if isinstance(batch, SingularBatch):
            return self._told(self.singular_checks.check(batch, self.l1_window, self.world.safe, self._inclusion()))
        check = self.checks.check_full if full else self.checks.check_prefix
        while isinstance(verdict := check(batch, self.l1_window, self.world.safe, self._inclusion()), NeedL2Blocks):
            numbers = range(verdict.first, verdict.last + 1)
            blocks = [self.world.chain[number] for number in numbers] if self.has_l2 else None
            assert self.chain.add(verdict.first, verdict.last, blocks)
        return self._told(verdict)

    def _told(self, verdict: BatchVerdict) -> str:
        if verdict.reason is None:
            return verdict.validity.value
        assert str(verdict.reason)
        return f"{verdict.validity.value} {verdict.reason.rule}"

    def singular(self, *transactions: bytes, time: int = NEXT, epoch: int = 1, **changes: Any) -> SingularBatch:
        values = {
            "parent_hash": self.world.safe.hash,
            "epoch_number": epoch,
            "epoch_hash": self.made.l1_hash(epoch),
            "timestamp": time,
            "transactions": transactions,
        }
        return SingularBatch(**(values | changes))

    def span(self, first: int, *l1_window: int, transactions: Any = (), **changes: Any) -> SpanBatch:
        encoded = self.world.span(first, *l1_window, transactions=transactions)
        config = self.world.config
        found = decode_span(encoded, 1, SpanRules(config.l2_chain_id, config.genesis.l2_time, config.block_time))
        assert isinstance(found, SpanBatch), str(found)
        return SpanBatch(**({name: getattr(found, name) for name in SpanBatch.__struct_fields__} | changes))


def _filled(span: SpanBatch, transactions: Sequence[Sequence[bytes]]) -> SpanBatch:
    """The span with these transactions, whatever they are."""
    lists = list(transactions) + [()] * (span.block_count - len(transactions))
    values = {name: getattr(span, name) for name in SpanBatch.__struct_fields__}
    values["transaction_counts"] = bytes(len(each) for each in lists)
    values["transactions"] = tuple(transaction for each in lists for transaction in each)
    return SpanBatch(**values)


# --- singular batches ----------------------------------------------------------------------------------------------

SINGULAR_CASES = [
    ("check1_future_pre", "granite", {"time": NEXT + 2}, "future V2"),
    ("check1_future_holocene", "holocene", {"time": NEXT + 2}, "drop V2"),
    ("check1_past_pre", "granite", {"time": NEXT - 2}, "drop V3"),
    ("check1_past_holocene", "holocene", {"time": NEXT - 2}, "past V3"),
    ("check1_misaligned", "granite", {"time": NEXT + 1}, "future V2"),
    ("check1_bad_parent", "granite", {"parent_hash": bytes(32)}, "drop V4"),
    ("check1_epoch_old", "granite", {"epoch": 0}, "drop V6"),
    ("check1_epoch_plus2", "granite", {"epoch": 3}, "drop V9"),
    ("check1_epoch_hash", "granite", {"epoch_hash": bytes(32)}, "drop V10"),
    ("check1_time_before_origin", "granite", {"epoch": 2}, "drop V11"),
    ("accepted", "granite", {}, "accept"),
]


@pytest.mark.parametrize(
    ("fork", "changes", "verdict"), [case[1:] for case in SINGULAR_CASES], ids=[case[0] for case in SINGULAR_CASES]
)
def test_singular(made: Any, fork: str, changes: dict[str, Any], verdict: str) -> None:
    scene = Scene(made, made.forks_to(fork))
    assert scene.judge(scene.singular(**changes)) == verdict


def test_check1_no_l1(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"), window=())
    assert scene.judge(scene.singular()) == "undecided V1"
    assert scene.judge(scene.span(11, 1)) == "undecided V1"


def test_check1_epoch_next_unknown(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"), window=(1,))
    assert scene.judge(scene.singular(epoch=2)) == "undecided V8"


@pytest.mark.parametrize(("inclusion", "verdict"), [(21, "accept"), (22, "drop V5")], ids=["edge", "over"])
def test_check1_window(made: Any, inclusion: int, verdict: str) -> None:
    scene = Scene(made, made.forks_to("granite"))
    scene.inclusion = inclusion
    assert scene.judge(scene.singular()) == verdict


def test_check1_time_equal_origin(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"))
    scene.world.extend(1, 1)
    assert scene.judge(scene.singular(time=1024, epoch=2)) == "accept"


@pytest.mark.parametrize("fork", ["jovian", "karst", "lagoon"])
@pytest.mark.parametrize(("users", "verdict"), [(1, "drop V12"), (0, "accept")], ids=["txs", "empty"])
def test_check1_activation(made: Any, fork: str, users: int, verdict: str) -> None:
    scene = Scene(made, made.forks_to("isthmus", **{fork: NEXT - 1}))
    assert scene.judge(scene.singular(*[made.USER] * users)) == verdict


@pytest.mark.parametrize("fork", ["canyon", "ecotone", "fjord", "granite", "holocene", "isthmus"])
def test_check1_other_activations_take_users(made: Any, fork: str) -> None:
    """check1_isthmus_activation_txs and the like."""
    scene = Scene(made, made.forks_to("regolith", **{fork: NEXT}))
    assert scene.judge(scene.singular(made.USER)) == "accept"


def test_check1_genesis_fork_txs(made: Any) -> None:
    world = made.World(made.forks_to("jovian"))
    world.put_batches(1, world.singular(1, 0, made.USER))
    assert made.told(world.run(2)) == ["1+1"]


DRIFT_CASES = [
    ("check1_drift_equal_txs", 10, (1, 2, 3, 4), {"users": 1}, "accept"),
    ("check1_drift_over_txs", 8, (1, 2, 3, 4), {"users": 1}, "drop V13"),
    ("check1_drift_over_empty_could", 8, (1, 2, 3, 4), {"late": True}, "drop V13"),
    ("check1_drift_over_empty_late", 8, (1, 2, 3, 4), {}, "accept"),
    ("check1_drift_over_empty_unknown", 8, (1,), {}, "undecided V13"),
]


@pytest.mark.parametrize(
    ("drift", "window", "changes", "verdict"), [case[1:] for case in DRIFT_CASES], ids=[case[0] for case in DRIFT_CASES]
)
def test_check1_drift(made: Any, drift: int, window: Sequence[int], changes: dict[str, Any], verdict: str) -> None:
    """Origin 1 has time 1012: with a drift of 10 the next block, 1022, is just within it."""
    scene = Scene(made, made.forks_to("ecotone"), window, max_sequencer_drift=drift)
    if changes.get("late"):
        scene.world.extend(1, 1)
    batch = scene.singular(*[made.USER] * changes.get("users", 0), time=scene.world.safe.timestamp + 2)
    assert scene.judge(batch) == verdict


@pytest.mark.parametrize(("users", "verdict"), [(0, "accept"), (1, "drop V13")], ids=["empty", "txs"])
def test_check1_drift_over_advance(made: Any, users: int, verdict: str) -> None:
    scene = Scene(made, made.forks_to("ecotone"), max_sequencer_drift=0)
    scene.world.extend(2, 1)
    assert scene.judge(scene.singular(*[made.USER] * users, time=1026, epoch=2)) == verdict


@pytest.mark.parametrize(("fjord", "verdict"), [(1013, "drop V13"), (1012, "accept")], ids=["fjord_origin", "1800"])
def test_check1_drift_fjord(made: Any, fjord: int, verdict: str) -> None:
    """The clock is the origin's time, 1012."""
    scene = Scene(made, made.forks_to("ecotone", fjord=fjord), max_sequencer_drift=8)
    assert scene.judge(scene.singular(made.USER)) == verdict


TRANSACTION_CASES = [
    ("check1_tx_empty", {}, b"", "drop V14"),
    ("check1_tx_deposit", {}, b"\x7e\x01", "drop V14"),
    ("check1_tx_setcode_pre", {"isthmus": NEXT + 1}, b"\x04\x01", "drop V14"),
    ("check1_tx_setcode_post", {"isthmus": NEXT}, b"\x04\x01", "accept"),
    ("check1_tx_postexec_pre", {}, b"\x7d\x01", "drop V14"),
    ("postexec_at_lagoon", {"lagoon": NEXT - 2}, b"\x7d\x01", "accept"),
    ("check1_tx_type3", {}, b"\x03\x01", "accept"),
    ("check1_tx_garbage", {}, b"\xff\xff", "accept"),
]


@pytest.mark.parametrize(
    ("forks", "transaction", "verdict"),
    [case[1:] for case in TRANSACTION_CASES],
    ids=[case[0] for case in TRANSACTION_CASES],
)
def test_check1_transactions(made: Any, forks: dict[str, int], transaction: bytes, verdict: str) -> None:
    scene = Scene(made, made.forks_to("holocene", **forks))
    assert scene.judge(scene.singular(made.USER, transaction)) == verdict


# --- the first part of the span check ------------------------------------------------------------------------------


def _changed(name: str, value: Any) -> Any:
    return lambda scene: scene.span(11, 1, 1, **{name: value})


PREFIX_CASES: list[tuple[str, str, Any, str]] = [
    ("accepted", "granite", lambda scene: scene.span(11, 1, 2), "accept"),
    ("prefix_pre_delta_origin", "canyon", lambda scene: scene.span(11, 1), "drop PX3"),
    ("prefix_future_pre", "granite", lambda scene: scene.span(12, 1, parent_check=b"p" * 20), "future PX4"),
    ("prefix_future_holocene", "holocene", lambda scene: scene.span(12, 1, parent_check=b"p" * 20), "drop PX4"),
    ("prefix_old_pre", "granite", lambda scene: scene.span(8, 1, 1), "drop PX5"),
    ("prefix_old_holocene", "holocene", lambda scene: scene.span(8, 1, 1), "past PX5"),
    ("prefix_between", "granite", lambda scene: scene.span(11, 1, 1, first_timestamp=NEXT - 1), "drop PX6a"),
    ("prefix_misaligned", "granite", lambda scene: scene.span(9, 1, 1, 1, first_timestamp=NEXT - 3), "drop PX6b"),
    ("prefix_overlap_ok", "granite", lambda scene: scene.span(9, 1, 1, 1), "accept"),
    ("prefix_overlap_genesis", "granite", lambda scene: scene.span(0, *[0] * 7, *[1] * 6), "undecided PX6c"),
    ("prefix_parent_mismatch", "granite", _changed("parent_check", b"p" * 20), "drop PX7"),
    ("prefix_epoch_jump", "granite", lambda scene: scene.span(11, 3, 3), "drop PX9"),
    ("prefix_origin_check_bad", "granite", _changed("origin_check", b"o" * 20), "drop PX10"),
    ("prefix_end_epoch_too_new", "granite", lambda scene: scene.span(11, 1, 2, 3, 4, 5), "undecided PX10"),
    ("prefix_end_epoch_too_old", "granite", lambda scene: scene.span(11, 0, 0), "undecided PX10"),
    ("prefix_accept_l1_hash_middle", "granite", lambda scene: scene.span(11, 1, 2, 3), "accept"),
]


@pytest.mark.parametrize(
    ("fork", "build", "verdict"), [case[1:] for case in PREFIX_CASES], ids=[case[0] for case in PREFIX_CASES]
)
def test_prefix(made: Any, fork: str, build: Any, verdict: str) -> None:
    scene = Scene(made, made.forks_to(fork))
    assert scene.judge(build(scene), full=False) == verdict


def test_prefix_origin_next_unknown(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"), window=(1,))
    assert scene.judge(scene.span(11, 2), full=False) == "undecided PX2"


def test_prefix_parent_20_only(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"))
    assert scene.world.safe.hash[:20] == scene.span(11, 1).parent_check


@pytest.mark.parametrize(("inclusion", "verdict"), [(21, "accept"), (22, "drop PX8")], ids=["edge", "over"])
def test_prefix_window(made: Any, inclusion: int, verdict: str) -> None:
    scene = Scene(made, made.forks_to("granite"))
    scene.inclusion = inclusion
    assert scene.judge(scene.span(11, 1, 1), full=False) == verdict


def test_prefix_start_epoch_old(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"), window=(0, 1, 2))
    assert scene.judge(scene.span(11, 0, 1), full=False) == "drop PX11"


def test_prefix_start_epoch_wrapped(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"))
    assert scene.judge(scene.span(11, 1, 1, first_epoch=2**64 - 1), full=False) == "drop PX9"


def test_the_parent_of_an_overlap_may_be_genesis(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"))
    assert scene.judge(scene.span(1, *[0] * 5, *[1] * 6), full=False) == "accept"


# --- the rest of the span check ------------------------------------------------------------------------------------

FULL_CASES: list[tuple[str, Any, str]] = [
    ("accepted", lambda scene: scene.span(11, 1, 1), "accept"),
    ("full_time_before_origin", lambda scene: scene.span(11, 2, 2), "drop V11"),
    ("full_setcode", lambda scene: _filled(scene.span(11, 1, 1), [(), (b"\x04",)]), "drop V14"),
    ("no look at post-exec", lambda scene: _filled(scene.span(11, 1, 1), [(), (b"\x7d",)]), "accept"),
    ("full_overlap_same", lambda scene: _filled(scene.span(9, 1, 1, 1), [(b"\x02old",), (b"\x02old",)]), "accept"),
    ("full_overlap_tx_count", lambda scene: scene.span(9, 1, 1, 1), "drop FU7"),
    (
        "full_overlap_tx_bytes",
        lambda scene: _filled(scene.span(9, 1, 1, 1), [(b"\x02old",), (b"\x02OLD",)]),
        "drop FU7",
    ),
]


@pytest.mark.parametrize(("build", "verdict"), [case[1:] for case in FULL_CASES], ids=[case[0] for case in FULL_CASES])
def test_full(made: Any, build: Any, verdict: str) -> None:
    scene = Scene(made, made.forks_to("granite"))
    assert scene.judge(build(scene)) == verdict


def test_full_epoch_behind_safe(made: Any) -> None:
    """The overlap starts in epoch 0 as the chain does; its first new block still has epoch 0."""
    scene = Scene(made, made.forks_to("granite"), window=(0, 1, 2))
    scene.l1_window.blocks = scene.l1_window.blocks[:1]
    assert scene.judge(scene.span(5, *[0] * 7)) == "drop FU1"


def test_full_epoch_missing(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"), window=(2, 3))
    assert scene.judge(scene.span(11, 1, 2)) == "drop FU2"


def test_full_overlap_origin(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite"), window=(0, 1, 2))
    span = scene.span(5, 0, 0, *[1] * 5)
    assert scene.judge(_filled(span, [(b"\x02old",)] * 6)) == "drop FU7"


@pytest.mark.parametrize("full", [True, False])
def test_full_overlap_fetch_fail(made: Any, full: bool) -> None:
    scene = Scene(made, made.forks_to("granite"))
    scene.has_l2 = False
    assert scene.judge(scene.span(9, 1, 1, 1), full) == "undecided PX6c"


def test_full_drift_long_span(made: Any) -> None:
    scene = Scene(made, made.forks_to("ecotone"), max_sequencer_drift=12)
    spans = [_filled(scene.span(11, 1, 1, 1), [(made.USER,)] * count) for count in (2, 3)]
    assert [scene.judge(span) for span in spans] == ["drop V13", "drop V13"]
    assert scene.judge(_filled(scene.span(11, 1, 1), [(made.USER,)] * 2)) == "accept"


@pytest.mark.parametrize(
    ("window", "verdict"), [((1, 2), "accept"), ((1,), "undecided V13")], ids=["late", "unknown_next"]
)
def test_full_drift_empty(made: Any, window: Sequence[int], verdict: str) -> None:
    """Block 1022 is beyond origin 1's drift and before origin 2's time."""
    scene = Scene(made, made.forks_to("ecotone"), window, max_sequencer_drift=8)
    assert scene.judge(scene.span(11, 1)) == verdict


def test_full_bit0_lie(made: Any) -> None:
    """Whether the first block advances follows from its epoch, not from bit 0: time 1036 is L1 block 3's."""
    scene = Scene(made, made.forks_to("ecotone"), max_sequencer_drift=0)
    scene.world.extend(7, 1)
    span = scene.span(18, 2)
    assert span.origin_bits == b"\x01"
    assert scene.judge(span) == "accept"
    assert scene.judge(scene.span(18, 2, origin_bits=b"\x00")) == "accept"
    assert scene.judge(scene.span(18, 1)) == "drop V13"


def test_full_setcode_cross_isthmus(made: Any) -> None:
    scene = Scene(made, made.forks_to("granite", isthmus=NEXT + 2))
    assert scene.judge(_filled(scene.span(11, 1, 1), [(), (b"\x04",)])) == "accept"
    assert scene.judge(_filled(scene.span(11, 1, 1), [(b"\x04",)])) == "drop V14"


# --- extraction ----------------------------------------------------------------------------------------------------


def test_extract_skips_what_is_safe(made: Any) -> None:
    scene = Scene(made, made.forks_to("holocene"))
    cursor = scene.checks.extract(scene.span(9, 1, 1, 1, 1), scene.l1_window, scene.world.safe)
    assert isinstance(cursor, SpanCursor)
    assert (cursor.index, cursor.timestamp, cursor.left) == (2, NEXT, 2)


def test_extract_old_epoch(made: Any) -> None:
    scene = Scene(made, made.forks_to("holocene"), window=(0, 1, 2))
    found = scene.checks.extract(scene.span(5, *[0] * 7), scene.l1_window, scene.world.safe)
    assert isinstance(found, Reason) and found.rule == "X2"


def test_extract_unknown_epoch(made: Any) -> None:
    scene = Scene(made, made.forks_to("holocene"), window=(2, 3))
    found = scene.checks.extract(scene.span(11, 1, 2), scene.l1_window, scene.world.safe)
    assert isinstance(found, Reason) and found.rule == "X3"
