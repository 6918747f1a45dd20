"""The deriver against a slow model of the rules, driven by anything a batcher, L1 and the engine may do: late, lost,
repeated and foreign frames, wrong batches, invalid payloads, forks at any time, L1 reorgs, resets, silence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rollup_node.stages.derivation.reasons.l1 import L1ParentMismatch
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC, is_deposit
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, InboxTransaction, Log
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from rollup_node.tools.batcher import channels as encoding
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch, span_batch
from rollup_node.tools.batcher.channels import Frame
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    GENESIS,
    GENESIS_TIME,
    L2_BLOCK_TIME,
    L2_CHAIN_ID,
    STRANGER,
    batcher_update,
    config_log,
    l1_hash,
)
from tests.conformance.kit.planning import Planned, child
from tests.conformance.kit.rollup_chain import DerivedBlock, RollupChain
from tests.conformance.kit.span_fields import TO, R, S
from tests.support.chains.derivation_model import DerivationModel, reset_start
from tests.support.chains.derivation_values import (
    ORDER,
    ModelBlock,
    ModelChannel,
    ModelL1,
    ModelRollup,
    ModelSpan,
)

CHAIN = bytes((L2_CHAIN_ID,))
ALICE, BOB, INVALID = (
    rlp.encode([bytes((nonce,)), b"\x09", b"\x52\x08", TO, b"", b"", b"\x1b", R, S]) for nonce in (1, 2, 13)
)
FEES = b"\x02" + rlp.encode([CHAIN, b"\x03", b"\x01", b"\x09", b"\x52\x08", TO, b"", b"", [], b"", R, S])
CODE = b"\x04" + rlp.encode([CHAIN, b"\x04", b"\x01", b"\x09", b"\x52\x08", TO, b"", b"", [], [], b"", R, S])
POST_EXEC = b"\x7d\xc0"
WHOLE = [(), (), (ALICE,), (ALICE,), (BOB, FEES, POST_EXEC), (CODE,), (ALICE, INVALID)]
ODD = [(b"",), (b"\x7e\xc0",), (b"\x04\xc0",), (POST_EXEC,), (b"\x03junk", ALICE)]
UPGRADES = {"ecotone": 6, "fjord": 3, "isthmus": 8, "jovian": 5, "karst": 31, "lagoon": 0}
"""Transactions of the forks' activation blocks [UPG1]."""
SELECTORS = {"jovian": "3db6be2b", "isthmus": "098999be", "ecotone": "440a5e20"}
HASH = st.sampled_from([b"\xee" * 32, b"\xef" * 32])

OFFSETS = st.sampled_from([0, 0, 0, 1, 7, 12, 24, 30, 60, 200])
STEPS = st.sampled_from([12, 12, 12, 12, 12, 1, 3, 30, 60])
EPOCHS = st.sampled_from(["due", "due", "due", "due", "stay", "ahead"])
BLOCKS = st.lists(st.tuples(EPOCHS, st.sampled_from(WHOLE)), min_size=1, max_size=7)
SHIFTS = st.sampled_from([-12, -4, -2, -1, 1, 2, 4, 600, 2000])
DEFECTS = st.one_of(
    st.tuples(st.just("time"), SHIFTS),
    st.tuples(st.just("parent"), HASH),
    st.tuples(st.just("hash"), HASH),
    st.tuples(st.just("epoch"), st.sampled_from([-2, -1, 1, 2])),
    st.tuples(st.just("txs"), st.sampled_from([*WHOLE, *ODD])),
    st.tuples(st.just("head"), st.integers(1, 3)),
    st.tuples(st.just("post-exec"), st.integers(0, 3)),
    st.tuples(st.just("filled"), st.none()),
)
PLACED = st.lists(st.tuples(st.integers(0, 7), DEFECTS), max_size=2)
FATES = st.sampled_from(["next"] * 16 + ["again", "skip", "late", "junk"])
ITEMS = st.lists(
    st.tuples(st.sampled_from(["batcher"] * 9 + ["stranger", "damaged"]), st.lists(FATES, max_size=5)), max_size=3
)
EVENTS = st.sampled_from([None] * 12 + ["batcher", "batcher back", "gas"])


@dataclass(frozen=True)
class BatcherPlan:
    """What a batcher puts into a channel: blocks from some parent on, cut into batches, some of them wrong."""

    start: str
    blocks: list[tuple[str, tuple[bytes, ...]]]
    cuts: list[tuple[int, bool]]
    defects: list[tuple[int, tuple[str, Any]]]
    pieces: int
    brotli: bool
    catches_up: bool


CUTS = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=4)
STARTS = st.sampled_from(["tip", "tip", "tip", "safe", "earlier", "far"])
PIECES = st.sampled_from([1, 1, 2, 4])
SPOILED = st.one_of(st.just([]), PLACED)
PLANS = st.builds(BatcherPlan, STARTS, BLOCKS, CUTS, SPOILED, PIECES, st.booleans(), st.booleans())
USUAL_BLOCKS = st.lists(st.tuples(st.just("due"), st.sampled_from(WHOLE)), min_size=1, max_size=7)
USUAL = st.builds(BatcherPlan, st.just("tip"), USUAL_BLOCKS, CUTS, st.just([]), PIECES, st.booleans(), st.just(True))


class ModelledChain:
    """A rollup chain with the model's view of it."""

    def __init__(self, forks: dict[str, int], window: int, drift: int, timeout: int) -> None:
        self.rollup = RollupChain(forks, seq_window_size=window, max_sequencer_drift=drift, channel_timeout=timeout)
        self.rollup.is_invalid = lambda attributes: self._is_bad(attributes) and self._replaces()
        self.rollup.is_refused = lambda attributes: self._is_bad(attributes) and not self._replaces()
        self.channels: dict[bytes, ModelChannel] = {}
        self.chain = ModelRollup(self.rollup.config, self.channels, lambda users: INVALID in users)
        first = self.rollup.l1[FIRST_L1].header
        self.l1 = [ModelL1(FIRST_L1, first.hash, first.parent_hash, first.timestamp)]
        self.branch, self.start, self.base = "", 0, FIRST_L1

    def _is_bad(self, attributes: PayloadAttributes) -> bool:
        return INVALID in attributes.transactions

    def _replaces(self) -> bool:
        """Whether invalid payloads are replaced at the L1 block being read."""
        origin = self.rollup.deriver.origin
        return origin is not None and self.chain.active("holocene", origin.timestamp)

    def mine(
        self,
        step: int,
        items: Sequence[tuple[str, Sequence[Frame]]] = (),
        event: str | None = None,
        deposits: int = 0,
    ) -> None:
        """The next L1 block."""
        last = self.l1[-1]
        number, time = last.number + 1, last.time + step
        senders = {"batcher": self.batcher(), "damaged": self.batcher(), "stranger": STRANGER}
        batcher = {"batcher": STRANGER, "batcher back": BATCHER}.get(event or "")
        gas = 40_000_000 + number if event == "gas" else None
        words = b"".join(value.to_bytes(32, "big") for value in (32, 32, gas or 0))
        updates = [batcher_update(batcher)] if batcher else [config_log(2, words)] if gas else []
        inbox = [InboxTransaction(2, senders[who], _encoded(who, frames), ()) for who, frames in items]
        block = self.rollup.l1.add(
            *inbox, updates=updates, deposits=(_deposit(),) * deposits, time=time - GENESIS_TIME, branch=self.branch
        )
        seen = tuple((senders[who], None if who == "damaged" else tuple(frames)) for who, frames in items)
        self.l1.append(ModelL1(number, block.header.hash, last.hash, time, seen, batcher, gas, deposits))

    def batcher(self) -> bytes:
        """Who may post in the next L1 block, unless that block itself changes it."""
        return next((item.batcher for item in reversed(self.l1) if item.batcher), BATCHER)

    def blocks(self) -> list[Planned]:
        """Return the derived chain as the model has it."""
        return [Planned(item.ref, item.users) for item in self.rollup.l2]

    def check(self) -> None:
        """Everything derived since the last reset is what the model derives."""
        self.rollup.run()
        model = DerivationModel(self.chain, self.l1, self.blocks()[: self.start + 1], self.base)
        end = model.run()
        assert [self._built(item) for item in self.rollup.l2[self.start + 1 :]] == model.built
        assert (self.rollup.reset_reason is not None) == (end == "reset")

    def _built(self, block: DerivedBlock) -> ModelBlock:
        assert block.output is not None
        attributes, time = block.output.attributes, block.ref.timestamp
        activating = self.chain.activating(time)
        upgrades = sum(UPGRADES.get(fork, 0) for fork in activating)
        gas = sum(load_bundle(fork).gas for fork in activating if fork in ("karst", "lagoon"))
        if "lagoon" in activating:
            upgrades += len(load_bundle("lagoon").transactions)
        active = [f for f in SELECTORS if self.chain.active(f, time) and f not in activating]
        assert (SELECTORS[active[0]] if active else "015d8eb9") in attributes.transactions[0].hex()
        deposits = sum(map(is_deposit, attributes.transactions)) - 1 - upgrades
        built = Planned(block.ref, block.users)
        return ModelBlock(built, block.inclusion, block.concluding, attributes.gas_limit - gas, deposits)

    def reset(self, safe: int) -> None:
        """Start again on an L2 block, at the L1 block that both searches find."""
        at = reset_start(self.chain, self.l1, self.blocks()[: safe + 1])
        result = self.rollup.base_at(safe)
        self.start, self.base = safe, self.rollup.l2[at].ref.l1_origin.number
        assert (result.base.number, result.config) == (self.base, self.rollup.l2[at].config)
        self.rollup.reset(self.base, result.config, safe)

    def reorg(self, depth: int, branch: str) -> int:
        """Remove L1 blocks; the newest L2 block that does not depend on them."""
        depth = min(depth, len(self.l1) - 1)
        del self.l1[len(self.l1) - depth :], self.rollup.l1.blocks[len(self.l1) :]
        self.branch = branch
        newest = self.l1[-1].number
        kept = [e for e in self.rollup.l2[1:] if e.ref.l1_origin.number <= newest and e.inclusion <= newest]
        return len(kept)


def _deposit() -> Log:
    data = (32).to_bytes(32, "big") + (73).to_bytes(32, "big") + bytes(96)
    return Log(b"\xde" * 20, (DEPOSIT_TOPIC, bytes(32), bytes(32), bytes(32)), data, 0)


def _encoded(who: str, frames: Sequence[Frame]) -> bytes:
    return encoding.batcher_data(frames) + b"\x99" * (who == "damaged")


class DerivationMachine(RuleBasedStateMachine):
    """The batcher, L1 and the engine."""

    @initialize(
        active=st.integers(0, len(ORDER)),
        offsets=st.lists(OFFSETS, max_size=len(ORDER)),
        window=st.sampled_from([2, 3, 4, 6, 10]),
        drift=st.sampled_from([4, 10, 30, 600]),
        timeout=st.sampled_from([1, 2, 4, 300]),
        depth=st.sampled_from([0, 1, 2, 100]),
    )
    def begin(self, active: int, offsets: list[int], window: int, drift: int, timeout: int, depth: int) -> None:
        times, now = dict.fromkeys(ORDER[:active], 0), GENESIS_TIME
        for fork, offset in zip(ORDER[active:], offsets, strict=False):
            now += offset
            times[fork] = now
        self.harness = ModelledChain(times, window, drift, timeout)
        self.harness.rollup.depth = depth
        self.tip = GENESIS
        self.line: dict[int, bytes] = {}
        self.outbox: list[Frame] = []
        self.sent: list[Frame] = []
        self.count = 0

    # --- batches ---------------------------------------------------------------------------------------------------

    @rule(plan=PLANS)
    def post(self, plan: BatcherPlan) -> None:
        """Make a channel; its frames wait to be mined."""
        blocks = self._planned(plan)
        batches: list[BatchBlock | ModelSpan] = []
        for size, is_span in plan.cuts:
            taken, blocks = blocks[:size], blocks[size:]
            if taken:
                batches += [_span(taken)] if is_span else [item.batch for item in taken]
        batches += [block.batch for block in blocks]
        for place, defect in plan.defects:
            batches[place % len(batches)] = _with_defect(batches[place % len(batches)], *defect)
        kind = encoding.Compression.BROTLI if plan.brotli else encoding.Compression.ZLIB
        body = encoding.channel_body([_encoded_batch(batch) for batch in batches], kind)
        self.harness.channels[body] = ModelChannel(plan.brotli, tuple(batches))
        self.count += 1
        step = -(-len(body) // plan.pieces)
        for number, at in enumerate(range(0, len(body), step)):
            piece, key = body[at : at + step], b"channel %8d" % self.count
            self.outbox.append(Frame(key, number, piece, at + step >= len(body)))

    def _planned(self, plan: BatcherPlan) -> list[Planned]:
        rollup = self.harness.rollup
        if (
            self.line.get(rollup.safe.number, rollup.safe.hash) != rollup.safe.hash
            or self.tip.number < rollup.safe.number
        ):
            self.tip, self.line = rollup.safe, {}
        parent = self.tip
        if plan.start == "safe":
            parent = rollup.safe
        elif plan.start == "earlier":
            parent = rollup.l2[max(0, len(rollup.l2) - 4)].ref
        elif plan.start == "far":
            parent = child(parent, (ALICE,), parent.l1_origin.number, epoch_hash=parent.l1_origin.hash).ref
        result: list[Planned] = []
        behind = (self.harness.l1[-1].time - parent.timestamp) // L2_BLOCK_TIME
        count = min(60, max(behind, len(plan.blocks))) if plan.catches_up else len(plan.blocks)
        for policy, txs in islice(cycle(plan.blocks), count):
            time = parent.timestamp + L2_BLOCK_TIME
            if not self.harness.chain.active("lagoon", time):
                txs = tuple(tx for tx in txs if tx != POST_EXEC)
            epoch = self._epoch(parent.l1_origin, time, policy)
            result.append(child(parent, txs, epoch.number, epoch_hash=epoch.hash))
            parent = result[-1].ref
        if plan.start in ("tip", "safe"):
            self.tip = parent
            self.line |= {item.ref.number: item.ref.hash for item in result}
        return result

    def _epoch(self, before: BlockId, time: int, policy: str) -> BlockId:
        number = before.number + 1
        known = number - FIRST_L1 < len(self.harness.l1)
        following = self.harness.l1[number - FIRST_L1] if known else None
        if policy == "ahead" or (policy == "due" and following is not None and following.time <= time):
            return BlockId(number, following.hash if following else l1_hash(number, self.harness.branch))
        return before

    # --- L1 --------------------------------------------------------------------------------------------------------

    @rule(step=STEPS, items=ITEMS, event=EVENTS, deposits=st.sampled_from([0, 0, 0, 2]), look=st.booleans())
    def mine(self, step: int, items: list[tuple[str, list[str]]], event: str | None, deposits: int, look: bool) -> None:
        """An L1 block with some of the frames that wait, which is perhaps read at once."""
        result = [(who, [frame for fate in fates for frame in self._frames(fate)]) for who, fates in items]
        self.harness.mine(step, result, event, deposits)
        if look:
            self.harness.rollup.run()

    def _frames(self, fate: str) -> list[Frame]:
        if fate == "again":
            return self.sent[-3:-2]
        if fate == "junk":
            return [Frame(self.sent[-1].channel_id if self.sent else b"j" * 16, 99, b"junk", False)]
        if not self.outbox:
            return []
        frame = self.outbox.pop(0)
        if fate == "late":
            self.outbox.append(frame)
            return []
        if fate == "skip":
            return []
        self.sent.append(frame)
        return [frame]

    @rule(plan=USUAL, step=st.sampled_from([1, 12, 12, 12]))
    def sequence(self, plan: BatcherPlan, step: int) -> None:
        """Sequences blocks and posts them, as in normal operation."""
        self.post(plan)
        self.mine_all(step)

    @rule(plan=USUAL, step=st.sampled_from([1, 12, 12, 12]))
    def sequence_more(self, plan: BatcherPlan, step: int) -> None:
        """The same again, so that Hypothesis chooses it more often."""
        self.sequence(plan, step)

    @rule(step=STEPS)
    def mine_all(self, step: int) -> None:
        """An L1 block with all frames that wait, one to a transaction."""
        self.sent += self.outbox
        self.harness.mine(step, [("batcher", [frame]) for frame in self.outbox])
        self.outbox = []
        self.harness.rollup.run()

    @rule(count=st.sampled_from([1, 2, 2, 3, 5, 9, 55]), step=st.sampled_from([1, 2, 12]))
    def silence(self, count: int, step: int) -> None:
        """L1 blocks without batches."""
        for _ in range(count):
            self.harness.mine(step)
        self.harness.rollup.run()

    @precondition(lambda self: self.sent)
    @rule(count=st.integers(1, 8))
    def replay(self, count: int) -> None:
        """Frames that were sent come again."""
        self.outbox += self.sent[-count:]

    @rule(depth=st.integers(1, 5), lost=st.booleans(), step=STEPS)
    def reorg(self, depth: int, lost: bool, step: int) -> None:
        """Other L1 blocks take the place of the newest; the deriver notices if it has read them."""
        self.look()
        self.count += 1
        before = self.harness.rollup.deriver.origin
        safe = self.harness.reorg(depth, f"{self.count} ")
        if not lost:
            self.outbox = [*self.sent[-4:], *self.outbox]
        self.harness.mine(step)
        if before is not None and before.number >= self.harness.l1[-1].number:
            while self.harness.l1[-1].number <= before.number:
                self.harness.mine(step)
            self.harness.rollup.run()
            assert self.harness.rollup.reset_reason is not None
            assert self.harness.rollup.reset_reason.kind is L1ParentMismatch
        self.harness.reset(min(safe, len(self.harness.rollup.l2) - 1))
        self.tip = self.harness.rollup.safe
        self.harness.rollup.run()

    # --- the engine ------------------------------------------------------------------------------------------------

    @rule(back=st.integers(0, 9))
    def restart(self, back: int) -> None:
        """The engine has lost blocks, or the node starts again."""
        self.look()
        self.harness.reset(max(0, len(self.harness.rollup.l2) - 1 - back))
        self.harness.rollup.run()

    @rule()
    def look(self) -> None:
        """Derive until more data is needed, and compares all since the last reset with the model."""
        self.harness.check()

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.check()


def _span(blocks: Sequence[Planned]) -> ModelSpan:
    first, last = blocks[0].ref, blocks[-1].ref
    epochs = tuple(block.ref.l1_origin.number for block in blocks)
    txs = tuple(block.transactions for block in blocks)
    return ModelSpan(first.timestamp, first.parent_hash[:20], last.l1_origin.hash[:20], epochs, txs)


def _with_defect(batch: BatchBlock | ModelSpan, what: str, value: Any) -> BatchBlock | ModelSpan:
    if what == "time":
        return replace(batch, timestamp=max(GENESIS_TIME, batch.timestamp + value))
    if isinstance(batch, BatchBlock):
        match what:
            case "parent":
                return replace(batch, parent_hash=value)
            case "hash":
                return replace(batch, epoch=BlockId(batch.epoch.number, value))
            case "epoch":
                return replace(batch, epoch=BlockId(batch.epoch.number + value, l1_hash(batch.epoch.number + value)))
            case "txs":
                return replace(batch, transactions=value)
        return batch
    match what:
        case "parent":
            return replace(batch, parent_check=value[:20])
        case "hash":
            return replace(batch, origin_check=value[:20])
        case "epoch":
            last = batch.epochs[-1] + value
            return replace(batch, epochs=tuple(e + value for e in batch.epochs), origin_check=l1_hash(last)[:20])
        case "txs" if value in WHOLE:
            return replace(batch, transactions=(*batch.transactions[:-1], value))
        case "post-exec":
            place = value % len(batch.transactions)
            txs = (
                *batch.transactions[:place],
                (*batch.transactions[place], POST_EXEC),
                *batch.transactions[place + 1 :],
            )
            return replace(batch, transactions=txs)
        case "filled":
            return replace(
                batch, transactions=(*batch.transactions[:-1], (*batch.transactions[-1], POST_EXEC)), filled=True
            )
        case "head" if value < len(batch.epochs):
            time = batch.timestamp + value * L2_BLOCK_TIME
            return replace(batch, timestamp=time, epochs=batch.epochs[value:], transactions=batch.transactions[value:])
    return batch


def _encoded_batch(batch: BatchBlock | ModelSpan) -> bytes:
    if isinstance(batch, BatchBlock):
        return singular_batch(batch)
    check = batch.origin_check + bytes(12)
    blocks = [
        BatchBlock(batch.parent_check + bytes(12), batch.timestamp + place * L2_BLOCK_TIME, BlockId(epoch, check), txs)
        for place, (epoch, txs) in enumerate(zip(batch.epochs, batch.transactions, strict=True))
    ]
    encoded = span_batch(blocks, GENESIS_TIME, batch.epochs[0])
    if not batch.filled:
        return encoded
    # The gas limits are followed by a bit for each legacy transaction.
    bits = -(-sum(tx[0] > 0x7F for txs in batch.transactions for tx in txs) // 8)
    return encoded[: -1 - bits] + b"\x09" + encoded[len(encoded) - bits :]


TestAgainstModel = DerivationMachine.TestCase
TestAgainstModel.settings = settings(max_examples=35, stateful_step_count=30, suppress_health_check=list(HealthCheck))
