"""Batches that name another parent after a fork with a bundle [UPG22]."""

import msgspec
import pytest

from rollup_node.stages.derivation.process.upgrade_watch import UpgradeWatch
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.derivation.reasons.singular import ParentHashMismatch
from rollup_node.stages.derivation.reasons.span import SpanParentMismatch
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import PROVEN_SECONDS, load_bundle
from tests.stages.derivation.process.test_derivation_log import RecordingLogger
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

H = b"\1" * 32
CROSSES = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"lagoon": 1000})
GIVEN = msgspec.structs.replace(
    CROSSES,
    bundles={"lagoon": msgspec.structs.replace(load_bundle("lagoon"), found="file x", confirmed_by="the operator")},
)
CONFIRMED = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"karst": 1000})
BEFORE, AFTER, LONG_AFTER = (
    L2BlockRef(H, time // 2, H, time, BlockId(1, H), 0) for time in (998, 1000, 1000 + PROVEN_SECONDS)
)
MISMATCHES: tuple[Reason, ...] = (ParentHashMismatch(H, H), SpanParentMismatch(H[:20], H))


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
        (CROSSES, AFTER, SenderNotBatcher(H[:20], H[:20])),
        (CROSSES, LONG_AFTER, MISMATCHES[0]),
        (CONFIRMED, AFTER, MISMATCHES[0]),
        (PLAIN_ROLLUP, AFTER, MISMATCHES[0]),
    ):
        watch, lines = watched(config, safe, reason)
        watch.derived()
        assert watch.problem is None and lines.lines == []
