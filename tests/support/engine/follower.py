"""A node that follows a source, in the engine core: its engine has a part of the chain, the source all of it."""

from typing import Any

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.calls import CallPurpose, FollowStatus
from rollup_node.stages.engine.follow.follow_rows import FollowSourceRead
from rollup_node.stages.engine.follow.follow_source import FollowResult
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.core_harness import CoreHarness
from tests.support.engine.model_engine import ModelEngine

LENGTH = 60


class Follower:
    """A node whose engine has the blocks up to `has`, and a source with all of them, away unless it has the heads
    `shown`. It is late: the time is that of the last block."""

    def __init__(self, has: int, shown: tuple[int, int, int] | None = None, **config: Any) -> None:
        self.chain = chain_with()
        self.refs = self.chain.build(LENGTH)
        self.engine = ModelEngine(self.chain)
        self.engine.head = self.refs[has].hash
        self.engine.lost = {ref.hash for ref in self.refs[has + 1 :]}
        self.harness = CoreHarness(self.chain, self.engine, follow_url="http://source", **config)
        self.harness.wait(float(LENGTH * self.chain.rollup.block_time))
        if shown is not None:
            self.shows(*shown)
        self.harness.move_l1(130)
        self.harness.run_until_idle(2000)

    def shows(self, local_safe: int, safe: int, finalized: int, refs: list[L2BlockRef] | None = None) -> None:
        """The source has these heads."""
        at = self.refs if refs is None else refs
        self.harness.source = FollowStatus(self.chain.l1_ref(110).id, at[local_safe], at[safe], at[finalized])

    def says(self, local_safe: int, safe: int, finalized: int, refs: list[L2BlockRef] | None = None) -> None:
        """The source has these heads; rounds of following it are made."""
        self.shows(local_safe, safe, finalized, refs)
        self.round()

    def round(self) -> None:
        self.harness.wait(10.5)
        self.harness.run_until_idle(2000)

    @property
    def heads(self) -> tuple[int, int, int, int]:
        """The numbers of unsafe, local safe, safe and finalized head that others see."""
        status = self.harness.status
        refs = (status.unsafe, status.local_safe, status.safe, status.finalized)
        unsafe, local_safe, safe, finalized = (-1 if ref is None else ref.number for ref in refs)
        return unsafe, local_safe, safe, finalized

    def results(self) -> list[FollowResult]:
        return [action.result for action in self.harness.done(FollowSourceRead)]

    def problem(self) -> str | None:
        """Return what operators are told of a block that the engine does not get."""
        shown = [action for action in self.harness.actions if isinstance(action, act.FetchLasts | act.FetchEnded)]
        return shown[-1].problem if shown and isinstance(shown[-1], act.FetchLasts) else None

    def run(self, seconds: int, hold: CallPurpose | None = None) -> None:
        """Lets time pass; calls of `hold` stay open."""
        for _ in range(seconds):
            self.harness.wait(1.0)
            if hold is None:
                self.harness.run_until_idle(2000)
            else:
                self.harness.run_others(hold)

    def branch(self, parent: L2BlockRef, length: int) -> list[L2BlockRef]:
        """Blocks on another branch."""
        refs = []
        for _ in range(length):
            attributes = self.chain.attributes(parent, parent.l1_origin.number, [self.chain.user])
            parent = self.chain.ref(self.chain.seal(parent, attributes))
            refs.append(parent)
        return refs
