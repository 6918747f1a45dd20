"""Transitions of the core that concern several machines."""

import pytest

from rollup_node.stages.engine.attributes.activation_hold import ActivationHold, OtherUpgrade
from rollup_node.stages.engine.attributes.attributes_job import AttributesJob, AttributesStep
from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.calls import CallPurpose, Instant
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.core.attributes_row import UpgradeDiffers
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.starts.pipeline_start import FoundStart
from rollup_node.stages.engine.starts.start_search import Base
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.core_harness import config_of

NOW = Instant(1_000.0, 50.0)


def state_of(chain: ChainFixture, **config: bool) -> CoreState:
    return CoreState(config_of(chain, **config))


def held(state: CoreState, chain: ChainFixture) -> ActivationHold:
    """Derivation waits before a block with another bundle."""
    begin(state, chain)
    other = OtherUpgrade("lagoon", 1, b"\1" * 32, "gas", "00" * 32, b"{}", "11" * 32, BUNDLE_FORKS["lagoon"].carried[1])
    derived = AttributesReady(1, 1, chain.genesis, chain.attributes(chain.genesis, 100), chain.l1_ref(101), True)
    job = AttributesJob(derived, derived.attributes, AttributesStep.HOLD, hold=ActivationHold(other))
    state.attributes.job = job
    assert job.hold is not None
    return job.hold


def of_upgrade(state: CoreState) -> list[object]:
    """Return the actions about it since the last call."""
    for _ in range(2):
        state.attributes_row.show_hold()
    actions, state.actions = state.actions, []
    return [item for item in actions if isinstance(item, UpgradeDiffers) or getattr(item, "name", "") == "upgrade"]


@pytest.mark.parametrize("auto", [True, False])
def test_a_hold_is_shown_when_it_changes(chain: ChainFixture, auto: bool) -> None:
    """[UPG24, UPG26]"""
    state = state_of(chain, bundle_auto=auto)
    hold = held(state, chain)
    assert of_upgrade(state) == [act.ShowProblem("upgrade", hold.problem), UpgradeDiffers(hold.other, False)]
    assert of_upgrade(state) == []
    hold.confirmed = True
    assert of_upgrade(state) == [act.ShowProblem("upgrade", hold.problem), UpgradeDiffers(hold.other, True, auto)]
    state.reset(ResetError("the chain has changed"), NOW)
    assert of_upgrade(state) == [act.ShowProblem("upgrade", None)]


def begin(state: CoreState, chain: ChainFixture, confirmed: bool = True) -> Heads:
    """Heads at genesis are in force."""
    heads = Heads(chain.genesis, chain.genesis, chain.genesis, chain.genesis)
    config = chain.rollup.genesis.system_config
    state.start_found(FoundStart(heads, chain.genesis, config, Base(chain.rollup.genesis.l1, config)))
    if confirmed:
        state.controller.accepted = heads.forkchoice()
        state.confirm(NOW)
    return heads


def test_an_engine_that_came_back_behind_its_finalized_block_is_named(chain: ChainFixture) -> None:
    """[ENG43] Fewer unsafe blocks than before are no loss of what was final."""
    state = state_of(chain)
    begin(state, chain)
    _, first, second, third = chain.build(3)
    for heads in (Heads(third, second, second, second), Heads(second, first, first, first)):
        state.reset(ResetError("x"), NOW)
        config = chain.rollup.genesis.system_config
        state.start_found(FoundStart(heads, heads.safe, config, Base(chain.rollup.genesis.l1, config)))
        state.publish(NOW)
        assert Code.ENGINE_LOST_BLOCKS not in _logged_codes(state)
    state.reset(ResetError("x"), NOW)
    state.publish(NOW)
    begin(state, chain)
    assert Code.ENGINE_LOST_BLOCKS in _logged_codes(state)


def _logged_codes(state: CoreState) -> list[Code | None]:
    return [action.code for action in state.actions if isinstance(action, act.LogLine)]


def test_drive_recovers_when_nothing_of_it_is_in_hand(chain: ChainFixture) -> None:
    state = state_of(chain)
    state.fail(CallPurpose.START, TemporaryError("away"), NOW)
    assert state.actions[-1] == act.WorkFailed("drive", act.Severity.TEMPORARY, "away", 1.0)
    begin(state, chain)
    assert act.WorkRecovered("drive") in state.actions
    state.fail(CallPurpose.START, TemporaryError("away"), NOW)
    state.session.restart_wanted = True
    state.confirm(NOW)
    assert state.backoff.is_waiting("drive", NOW.monotonic), "an update of other work does not end its pause"
