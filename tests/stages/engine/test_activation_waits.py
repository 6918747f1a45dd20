"""Derivation waits before an activation block whose upgrade transactions are not ours: what the whole engine core does
meanwhile [UPG24, UPG26]."""

import msgspec
import pytest

from rollup_node.stages.engine.attributes.activation_hold import ActivationHold
from rollup_node.stages.engine.core.attributes_row import UpgradeDiffers
from rollup_node.stages.messages.engine import BatchParent
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CarriedBundle
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import carried_bundle
from tests.support.chains.chain_fixture import ALL_FORKS, GENESIS_TIME, ChainFixture, make_rollup
from tests.support.engine.core_harness import CoreHarness, started
from tests.support.engine.model_engine import ModelEngine

OURS, THEIRS, *_ = BUNDLE_FORKS["lagoon"].carried
FORKS = dict.fromkeys((*ALL_FORKS, "karst"), 0)


def rollup_with(carried: CarriedBundle, chains: int = 1, block: int = 1) -> RollupConfig:
    """Return a chain of which a block, the first one unless another is given, activates Lagoon with this bundle."""
    forks = FORKS | {"lagoon": GENESIS_TIME + 2 * block}
    return make_rollup(forks, bundles={"lagoon": carried_bundle("lagoon", carried)}, dependency_set_size=chains)


def waiting(theirs: RollupConfig, safe: int = 0) -> tuple[CoreHarness, list[L2BlockRef]]:
    """Return a node with our bundle and `auto`, and blocks in its engine that have another one, the first `safe` as
    safe."""
    chain, builder = ChainFixture(rollup_with(OURS)), ChainFixture(theirs)
    refs = builder.build(4)
    for payload in builder.payloads.values():
        chain.keep(payload)
    engine = ModelEngine(chain)
    engine.head, engine.safe = refs[-1].hash, refs[safe].hash
    harness = started(chain, engine, bundle_auto=True)
    harness.derive_block()
    assert hold(harness).other.number == 1
    return harness, refs


def chosen(harness: CoreHarness) -> list[UpgradeDiffers]:
    """Return the upgrades for whose bundle the node was to start again."""
    return [action for action in harness.done(UpgradeDiffers) if action.is_chosen]


def hold(harness: CoreHarness) -> ActivationHold:
    result = harness.core.attributes.hold
    assert result is not None
    return result


def repeat(harness: CoreHarness, *parents: BatchParent) -> None:
    """Derivation repeats what it waits for, with what L1 says."""
    assert harness.waiting is not None
    harness.request(msgspec.structs.replace(harness.waiting, parents=parents), harness.derivation)
    harness.run_until_idle()


def test_derivation_may_die_and_start_again_meanwhile() -> None:
    harness, refs = waiting(rollup_with(THEIRS))
    first = harness.core.status().reset
    harness.restart_derivation()
    harness.derive_block()
    assert harness.start is not None and harness.start.reset > first
    harness.derive_block()
    repeat(harness, BatchParent(2, refs[2].hash))
    assert hold(harness).confirmed and "a later batch on L1" in str(hold(harness).problem)
    assert [action.confirmed for action in harness.done(UpgradeDiffers)][-1]
    assert len(chosen(harness)) == 1


def test_the_block_before_is_recorded_once_derivation_asks_for_it() -> None:
    """[SDB13]: else derivation would not get to the block that waits for it, and tell what L1 has."""
    chain, builder = ChainFixture(rollup_with(OURS, block=2)), ChainFixture(rollup_with(THEIRS, block=2))
    refs = builder.build(3)
    for payload in builder.payloads.values():
        chain.keep(payload)
    engine = ModelEngine(chain)
    engine.head = refs[-1].hash
    harness = started(chain, engine, bundle_auto=True, safedb_path="safe")
    harness.derive()
    harness.derive_ahead(1, concluding=True)
    harness.run_until_idle()
    assert hold(harness).other.number == 2 and harness.waiting is not None and harness.waiting.sequence == 1
    harness.derive_block()
    assert harness.waiting is None and harness.record.entries[-1].safe_head.number == 1
    harness.derive()
    assert harness.waiting is not None and harness.waiting.sequence == 2
    repeat(harness, BatchParent(2, refs[2].hash))
    assert hold(harness).confirmed


def test_with_another_dependency_set_no_bundle_is_chosen() -> None:
    """The node would start again with the bundle that it has, for ever."""
    harness, refs = waiting(rollup_with(OURS, chains=2))
    repeat(harness, BatchParent(2, refs[2].hash))
    assert hold(harness).confirmed and hold(harness).other.same_bundle
    assert chosen(harness) == []


@pytest.mark.parametrize(
    ("safe", "replaced", "kept", "confirmed"),
    [
        pytest.param(0, 1, 1, True, id="L1 keeps batches of blocks that the sequencer replaced"),
        pytest.param(3, 2, 3, True, id="what this node derived with the right bundle stays"),
        pytest.param(0, 3, None, False, id="a later block that L1 replaces decides nothing"),
    ],
)
def test_batches_on_other_branches_contradict_nothing(
    safe: int, replaced: int, kept: int | None, confirmed: bool
) -> None:
    """Batches go on from another block of a height, and from the engine's block of another."""
    harness, refs = waiting(rollup_with(THEIRS), safe)
    engine_s = [] if kept is None else [BatchParent(kept, refs[kept].hash[:20])]
    repeat(harness, BatchParent(replaced, b"\x07" * 20), *engine_s)
    assert hold(harness).confirmed is confirmed and hold(harness).own is bool(safe)
    assert harness.heads.unsafe == refs[-1]


def test_what_this_node_derived_with_a_wrong_bundle_is_replaced() -> None:
    """It was started again with the right one: batches go on from other blocks than the engine's."""
    harness, _ = waiting(rollup_with(THEIRS), safe=3)
    assert hold(harness).own
    repeat(harness, BatchParent(3, b"\x07" * 20))
    assert harness.heads.safe.number == 1
    block = harness.chain.payloads[harness.heads.safe.hash]
    assert block.transactions[1:] == carried_bundle("lagoon", OURS).transactions
