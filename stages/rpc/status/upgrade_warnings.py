"""Warnings about forks to come: upgrade bundles that no release is known to have [UPG22], and an execution engine that
seems not to know the fork [ENG42]."""

from collections.abc import Iterable

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import ForkDoubt
from rollup_node.stages.protocol.config import RollupConfig, utc_time
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import ForkBundle, unconfirmed_bundles
from rollup_node.stages.rpc.status.node_status import StatusWarning


def upgrade_warnings(rollup: RollupConfig, safe: L2BlockRef | None, wall: float) -> list[StatusWarning]:
    """Return the bundles of this chain that may be wrong, until the safe head is well after the fork.

    `wall` in Unix seconds."""
    code = Code.BUNDLE_UNCONFIRMED
    return [
        StatusWarning(code.text, bundle_warning(each, wall), code.meaning, bundle_remedy(each.fork), each.time)
        for each in unconfirmed_bundles(rollup)
        if safe is None or not each.is_proven(safe.timestamp)
    ]


def engine_warnings(doubts: Iterable[ForkDoubt], wall: float) -> list[StatusWarning]:
    """Return the forks that the engine seems not to know, until they begin; `wall` in Unix seconds."""
    code = Code.FORK_MISMATCH
    return [
        StatusWarning(code.text, doubt_text(each, wall), code.meaning, code.remedy, each.time)
        for each in doubts
        if each.time > wall
    ]


def doubt_text(doubt: ForkDoubt, wall: float) -> str:
    """Return the line for an operator; `wall` in Unix seconds."""
    return f"{doubt.fork} begins at {utc_time(doubt.time)}, in {duration(doubt.time - wall)}, and {doubt.reason}"


def bundle_warning(found: ForkBundle, wall: float) -> str:
    """Return the line for an operator; `wall` in Unix seconds."""
    due = f"activates in {duration(found.time - wall)}" if found.time > wall else "has activated"
    bundle = f"its upgrade bundle {found.bundle.sha256[:8]} ({found.bundle.found}) is not confirmed by a release"
    return f"{found.fork} {due} ({utc_time(found.time)}), and {bundle}"


def bundle_remedy(fork: str) -> str:
    """Return what the operator can do, for this fork."""
    return Code.BUNDLE_UNCONFIRMED.remedy.replace("lagoon", fork)
