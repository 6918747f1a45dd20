"""Harness for the checks of batches, with a safe chain and a window of L1 blocks."""

from collections.abc import Mapping, Sequence
from typing import Any

from rollup_node.stages.derivation.codec.batches import SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.pipeline.batch_checks import (
    BatchChecks,
    BatchValidity,
    BatchVerdict,
    OverlapBlocks,
)
from rollup_node.stages.derivation.pipeline.channel_reader import span_rules
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.reasons.reason import AnyKind
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockContent, L2BlockRef
from tests.conformance.kit.chain import FIRST_L1, GENESIS, L1Blocks, rollup
from tests.conformance.kit.planning import Planned, child, plan

CheckResult = tuple[BatchValidity, AnyKind | None]
ACCEPTED: CheckResult = (BatchValidity.ACCEPT, None)
DEPOSIT = b"\x7e\xc0"


def dropped(reason: AnyKind) -> CheckResult:
    """Return the batch is invalid."""
    return BatchValidity.DROP, reason


def undecided(reason: AnyKind) -> CheckResult:
    """Return the batch is undecided: an L1 or L2 block needed for the check is missing."""
    return BatchValidity.UNDECIDED, reason


class BatchCheckHarness:
    """L1 blocks by their distance from genesis' origin: the window goes from `first` to `last`, batches were
    included in `included`; `times` are the times of some of them, in seconds after genesis. The safe chain has
    `safe` blocks."""

    def __init__(
        self,
        forks: dict[str, int],
        *,
        safe: int | Sequence[Planned] = 0,
        first: int = 0,
        last: int = 2,
        included: int | None = None,
        times: Mapping[int, int] | None = None,
        **changes: Any,
    ) -> None:
        self.config = rollup(forks, **changes)
        self.l1 = L1Blocks()
        self.included = last if included is None else included
        while len(self.l1.blocks) <= max(last, self.included):
            self.l1.add(time=(times or {}).get(len(self.l1.blocks)))
        self.l1_window = L1OriginWindow(self.l1.blocks[0])
        self.l1_window.blocks = self.l1.blocks[first : last + 1]
        self.chain = plan(GENESIS, safe) if isinstance(safe, int) else list(safe)
        self.safe: L2BlockRef = self.chain[-1].ref if self.chain else GENESIS
        self.withheld: set[int] = set()
        self.requested: list[NeedL2Blocks] = []
        self._overlap_blocks = OverlapBlocks()
        self.checks = BatchChecks(self.config, self._overlap_blocks)

    @property
    def inclusion(self) -> L1BlockRef:
        """The L1 block in which batches were included."""
        return self.l1[FIRST_L1 + self.included].ref

    def block(self, number: int) -> L2BlockRef:
        """Return a block of the safe chain."""
        return self.chain[number - 1].ref if number else GENESIS

    def next(self, transactions: Sequence[bytes], epoch: int | None = None, **values: Any) -> Planned:
        """Return the block after the safe head; `epoch` by its distance."""
        return child(self.safe, transactions, None if epoch is None else FIRST_L1 + epoch, **values)

    def decoded(self, encoded: bytes) -> SingularBatch | SpanBatch:
        """Return the batch of these bytes."""
        batch = decode_batch(encoded, span_rules(self.config))
        assert isinstance(batch, SingularBatch | SpanBatch)
        return batch

    def singular(self, batch: Planned | SingularBatch) -> CheckResult:
        """Return the result of a singular batch."""
        decoded = self.decoded(batch.singular) if isinstance(batch, Planned) else batch
        assert isinstance(decoded, SingularBatch)
        return _result(self.checks.check(decoded, self.l1_window, self.safe, self.inclusion))

    def span(self, batch: SingularBatch | SpanBatch | bytes, full: bool = False) -> CheckResult:
        """Return the result of a span batch: of the prefix checks, or of all of them."""
        if isinstance(batch, bytes):
            batch = self.decoded(batch)
        assert isinstance(batch, SpanBatch)
        check = self.checks.check_full if full else self.checks.check_prefix
        self._overlap_blocks.begin_check()
        self.requested.clear()
        while isinstance(verdict := check(batch, self.l1_window, self.safe, self.inclusion), NeedL2Blocks):
            self.requested.append(verdict)
            assert self._overlap_blocks.add(verdict.first, verdict.last, self._contents(verdict))
        return _result(verdict)

    def _contents(self, need: NeedL2Blocks) -> list[L2BlockContent] | None:
        numbers = range(need.first, need.last + 1)
        if self.withheld & set(numbers):
            return None
        transactions = [self.chain[number - 1].transactions if number else () for number in numbers]
        return [
            L2BlockContent(self.block(number), (DEPOSIT, *users))
            for number, users in zip(numbers, transactions, strict=True)
        ]


def _result(verdict: BatchVerdict) -> CheckResult:
    return verdict.validity, None if verdict.reason is None else verdict.reason.kind
