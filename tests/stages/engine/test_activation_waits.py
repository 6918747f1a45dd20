"""Derivation waits before an activation block whose upgrade transactions are not ours: what the whole engine core does
meanwhile [UPG24, UPG26]."""

import msgspec

from rollup_node.stages.engine.core.actions import BundleChosen, UpgradeDiffers
from rollup_node.stages.engine.machines.activation_hold import ActivationHold
from rollup_node.stages.messages.engine import BatchParent
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CarriedBundle
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.protocol.upgrade_transactions import carried_bundle
from tests.support.chains.chain_fixture import ALL_FORKS, GENESIS_TIME, ChainFixture, make_rollup
from tests.support.engine.core_harness import CoreHarness, started
from tests.support.engine.model_engine import ModelEngine

OURS, THEIRS, *_ = BUNDLE_FORKS["lagoon"].carried
FORKS = {**dict.fromkeys((*ALL_FORKS, "karst"), 0), "lagoon": GENESIS_TIME + 2}


def rollup_with(carried: CarriedBundle, chains: int = 1) -> RollupConfig:
    """A chain whose first block activates Lagoon with this bundle."""
    return make_rollup(FORKS, bundles={"lagoon": carried_bundle("lagoon", carried)}, dependency_set_size=chains)


def waiting(theirs: RollupConfig, safe: int = 0) -> tuple[CoreHarness, list[L2BlockRef]]:
    """A node with our bundle and `auto`, and blocks in its engine that have another one, the first `safe` as safe."""
    chain = ChainFixture(rollup_with(OURS))
    builder = ChainFixture(theirs)
    refs = builder.build(4)
    for payload in builder.payloads.values():
        chain.keep(payload)
    engine = ModelEngine(chain)
    engine.head, engine.safe = refs[-1].hash, refs[safe].hash
    harness = started(chain, engine, bundle_auto=True)
    harness.derive()
    harness.run_until_idle()
    assert hold(harness).other.number == 1
    return harness, refs


def hold(harness: CoreHarness) -> ActivationHold:
    found = harness.core._state.attributes.hold
    assert found is not None
    return found


def repeat(harness: CoreHarness, *parents: BatchParent) -> None:
    """Derivation repeats what it waits for, with what L1 says."""
    assert harness.waiting is not None
    harness.request(msgspec.structs.replace(harness.waiting, parents=parents), harness.derivation)
    harness.run_until_idle()


def test_derivation_may_die_and_start_again_meanwhile() -> None:
    harness, refs = waiting(rollup_with(THEIRS))
    first = harness.core.status().reset
    harness.restart_derivation()
    harness.derive()
    harness.run_until_idle()
    assert harness.start is not None and harness.start.reset > first
    harness.derive()
    harness.run_until_idle()
    repeat(harness, BatchParent(2, refs[2].hash))
    assert hold(harness).confirmed
    assert [action.confirmed for action in harness.done(UpgradeDiffers)][-1]
    assert len(harness.done(BundleChosen)) == 1
