"""A denied block ends its span for good: what is derived is the same on each node, whenever its processes restart
[IV5, IV6, IV11, RW1, RW3, N1], optimism#22138."""

from typing import Any

import pytest

from rollup_node.stages.derivation.reasons.batches import (
    OverlapCountMismatch,
    PayloadReplacedByDeposits,
    SpanPast,
)
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.support.chains.chain_fixture import make_rollup
from tests.support.engine.derived_node import DerivedNode, PostedChain

MORE = 2
"""Transactions in a block of the chain that a sequencer built after a replacement, which has other content."""


class Scene:
    """The blocks 1 to 3 are on L1, then a span of 4 to 9, of which 5 is denied; on its replacement a span of the blocks
    5 to 8, of which 6 is denied; and on that one's replacement the blocks 7 and 8.

    `nodes` have the replacement of each denied block by its number."""

    def __init__(self) -> None:
        self.chain = chain = PostedChain(make_rollup())
        self.old = [chain.genesis, *chain.extend(chain.genesis, 9, [chain.user])]
        chain.post(102, self.old[1:4])
        chain.post(103, self.old[4:10])
        self.first = self.replacement(self.old[5])
        self.second = chain.extend(self.first, 3, [chain.user] * MORE)
        chain.post(106, [self.first, *self.second])
        self.last = self.replacement(self.second[0])
        self.third = chain.extend(self.last, 2, [chain.user] * MORE)
        chain.post(109, self.third)

    def replacement(self, denied: L2BlockRef) -> L2BlockRef:
        parent = self.chain.known[denied.parent_hash].ref
        return self.chain.extend(parent, 1, [])[0]

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """What the interop process says one after the other."""
        first, last = self.old[5].id, self.second[0].id
        four, five = self.old[4].id, self.first.id
        return [
            {"verified": four, "denied": [], "l1": 105},
            {"verified": four, "denied": [first], "transition": 1, "go_back": four, "l1": 105},
            {"verified": four, "denied": [first], "transition": 1, "l1": 108},
            {"verified": five, "denied": [first], "transition": 1, "l1": 108},
            {"verified": five, "denied": [first, last], "transition": 2, "go_back": five, "l1": 108},
            {"verified": five, "denied": [first, last], "transition": 2, "l1": 111},
            {"verified": self.third[1].id, "denied": [first, last], "transition": 2, "l1": 111},
        ]

    def say(self, node: DerivedNode, verdict: dict[str, Any]) -> None:
        node.move_l1(verdict["l1"])
        node.judge(**{name: value for name, value in verdict.items() if name != "l1"})

    def node(self) -> DerivedNode:
        return DerivedNode(self.chain)

    def reborn(self, old: DerivedNode) -> DerivedNode:
        """Return the next life of the engine process; derivation has a new life too."""
        new = DerivedNode(self.chain, old.engine)
        new.record, new.now = old.record, old.now
        new.dropped = old.dropped
        return new

    def chain_of(self, node: DerivedNode) -> list[L2BlockRef]:
        """Return the local safe chain, genesis first."""
        refs = [node.heads.safe]
        while refs[-1].number:
            refs.append(self.chain.known[refs[-1].parent_hash].ref)
        return refs[::-1]

    @property
    def wanted(self) -> list[L2BlockRef]:
        return [*self.old[:5], self.first, self.last, *self.third]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_rest_of_a_span_is_not_applied_after_a_replacement(scene: Scene) -> None:
    """Step by step, without a restart."""
    node = scene.node()
    wanted = [
        scene.old,
        [*scene.old[:5], scene.first],
        [*scene.old[:5], scene.first, *scene.second],
        [*scene.old[:5], scene.first, *scene.second],
        scene.wanted[:7],
        scene.wanted,
        scene.wanted,
    ]
    for verdict, blocks in zip(scene.verdicts, wanted, strict=True):
        scene.say(node, verdict)
        node.work()
        assert scene.chain_of(node) == blocks, verdict
        assert node.status.transition == verdict.get("transition", 0)
    assert sum(drop.reason.kind is PayloadReplacedByDeposits for drop in node.dropped) == 2
    assert node.status.safe == scene.third[1] and node.engine.safe == scene.third[1].hash


@pytest.mark.parametrize("with_record", [True, False])
@pytest.mark.parametrize("at", range(7))
def test_a_restart_changes_nothing(scene: Scene, at: int, with_record: bool) -> None:
    """The process is restarted after each verdict is worked off, and begins at the verified block, or the finalized
    one without a record; the old span lies ahead of it again."""
    node = scene.node()
    for number, verdict in enumerate(scene.verdicts):
        scene.say(node, verdict)
        node.work()
        if number == at:
            before = scene.chain_of(node)
            node = scene.reborn(node)
            if not with_record:
                node.record.entries.clear()
            scene.say(node, verdict)
            node.work()
            assert scene.chain_of(node) == before
    assert scene.chain_of(node) == scene.wanted


@pytest.mark.parametrize("overlap_check", [True, False])
def test_a_start_at_a_finalized_replacement_does_not_apply_the_old_span(scene: Scene, overlap_check: bool) -> None:
    """The engine has lost what is above it, so the start is there, above the first block of the span. Without N1 that
    is where op-supernode forked."""
    node = scene.node()
    for verdict in scene.verdicts[:6]:
        scene.say(node, verdict)
        node.work()
    engine = node.engine
    engine.finalized = engine.head = engine.safe = scene.first.hash
    node = DerivedNode(scene.chain, engine, overlap_check=overlap_check)
    scene.say(node, scene.verdicts[5])
    node.work()
    assert node.dropped[0].reason.kind is SpanPast and node.start is not None
    reasons = {drop.reason.kind for drop in node.dropped}
    if overlap_check:
        assert scene.chain_of(node) == scene.wanted and OverlapCountMismatch in reasons, reasons
    else:
        assert scene.chain_of(node)[6].parent_hash == scene.first.hash
        transactions = scene.chain.payloads[scene.chain_of(node)[6].hash].transactions
        assert transactions == scene.chain.payloads[scene.old[6].hash].transactions


def test_two_nodes_have_the_same_chain(scene: Scene) -> None:
    """One that hears of the denied blocks as they are found, and one that is new and hears of all of them first."""
    seasoned, fresh = scene.node(), scene.node()
    for verdict in scene.verdicts:
        scene.say(seasoned, verdict)
        seasoned.work()
    scene.say(fresh, scene.verdicts[-1])
    fresh.work()
    assert scene.chain_of(seasoned) == scene.chain_of(fresh) == scene.wanted
    assert fresh.status.safe == seasoned.status.safe == scene.third[1]


def test_a_kill_in_any_step_changes_nothing(scene: Scene) -> None:
    """The engine process ends after each number of calls since a verdict, with a call on its way, and is started."""
    kills = 0
    for number, verdict in enumerate(scene.verdicts):
        for calls in range(0, 200, 5):
            node = scene.node()
            for earlier in scene.verdicts[:number]:
                scene.say(node, earlier)
                node.work()
            scene.say(node, verdict)
            before = node.answered
            node.work(calls)
            ended = node.answered - before < calls
            if node.open and calls % 2:
                node.good_answer(node.open[0])  # the engine has it, and nobody hears of it
            node = scene.reborn(node)
            kills += 1
            for later in scene.verdicts[number:]:
                scene.say(node, later)
                node.work()
            assert scene.chain_of(node) == scene.wanted, (number, calls)
            if ended:
                break
    assert kills > 24


def test_a_chain_goes_back_over_a_replacement_when_l1_has_left_it(scene: Scene) -> None:
    """[RA2]: the denied block is allowed again, and derived again from what is on L1 now."""
    node = scene.node()
    for verdict in scene.verdicts[:4]:
        scene.say(node, verdict)
        node.work()
    node.judge(verified=scene.old[4].id, transition=2, go_back=BlockId(4, bytes(32)))
    node.work()
    assert scene.chain_of(node) == scene.old and node.status.transition == 2
