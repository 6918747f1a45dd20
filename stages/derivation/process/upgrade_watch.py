"""Watches for what a wrong upgrade bundle leads to: batches after the fork name another parent [UPG22]."""

from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.reasons.singular import ParentHashMismatch
from rollup_node.stages.derivation.reasons.span import SpanParentMismatch
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import selectable_bundles


class UpgradeWatch:
    """Whether batches in the first day after the activation of a fork name another parent, until one is accepted.

    Confirmed or not, the bundle may be wrong: an operator may have given the wrong file."""

    def __init__(self, rollup: RollupConfig, log: Logger) -> None:
        self._bundles = selectable_bundles(rollup)
        self._condition = LastingCondition(log, counts=False)
        self._problem: Problem | None = None

    @property
    def problem(self) -> Problem | None:
        """The health problem, if there is one."""
        return self._problem

    def dropped(self, dropped: Dropped, safe: L2BlockRef) -> None:
        """Something that came to the inbox was not used, on this safe head."""
        if not self._bundles or not isinstance(dropped.reason, ParentHashMismatch | SpanParentMismatch):
            return
        for each in self._bundles:
            if safe.timestamp >= each.time and not each.is_proven(safe.timestamp):
                text = f"batches after the activation of {each.fork} name another parent than block {safe.number}"
                wrong = f"the bundle {each.bundle.sha256[:8]} ({each.bundle.found}) is probably not the chain's"
                back = "or the engine has the block of a wrong one, final by now: set it back to before the fork"
                self._problem = Problem(Code.BUNDLE_UNCONFIRMED, "", f"{text}: {wrong}, {back}")
                self._condition.report(Code.BUNDLE_UNCONFIRMED, text, safe=safe, bundle=each.bundle.sha256)

    def derived(self) -> None:
        """Note a block of a batch that has become safe."""
        if self._problem is not None:
            self._problem = None
            self._condition.end("batches are accepted again")
