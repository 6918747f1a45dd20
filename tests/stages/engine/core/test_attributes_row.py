"""Which life of derivation has which start."""

import msgspec
import pytest

from rollup_node.stages.messages.engine import AttributesReady, PipelineStart, StartRequest
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.core_harness import CoreHarness, started


def derived(harness: CoreHarness) -> AttributesReady:
    """Return the first attributes of the current start."""
    chain, start = harness.chain, harness.start
    assert start is not None
    return AttributesReady(start.reset, 1, chain.genesis, chain.attributes(chain.genesis, 100), chain.l1_ref(105), True)


def test_messages_of_an_earlier_life_are_ignored(chain: ChainFixture) -> None:
    harness = started(chain)
    earlier, message = harness.derivation, derived(harness)
    harness.restart_derivation()
    harness.derive_block()
    assert harness.core.session.owner == harness.derivation != earlier
    starts = harness.sent(PipelineStart)
    for item in (StartRequest(0, None), message):
        harness.request(item, earlier)
        assert harness.step() == [] and harness.sent(PipelineStart) == starts


def test_a_new_life_does_not_go_on_with_a_start_that_is_not_its_own(chain: ChainFixture) -> None:
    harness = started(chain)
    message = derived(harness)
    harness.restart_derivation()
    harness.request(StartRequest(0, "it was killed"), harness.derivation)
    harness.request(message, harness.derivation)
    assert harness.core.attributes.run.offered is None and len(harness.sent(PipelineStart)) == 1
    harness.run_until_idle()
    assert len(harness.sent(PipelineStart)) == 2 and harness.core.session.owner == harness.derivation


@pytest.mark.parametrize(("later", "starts", "taken"), [(-1, 2, False), (1, 1, False), (0, 1, True)])
def test_attributes_of_an_earlier_start_are_answered_by_the_current_one(
    chain: ChainFixture, later: int, starts: int, taken: bool
) -> None:
    harness = started(chain)
    message = derived(harness)
    harness.request(msgspec.structs.replace(message, reset=message.reset + later), harness.derivation)
    assert len(harness.sent(PipelineStart)) == starts
    assert (harness.core.attributes.run.offered is not None) is taken


def test_attributes_are_not_taken_while_another_start_is_on_its_way(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.core.session.restart_wanted = True
    harness.request(derived(harness), harness.derivation)
    assert harness.core.attributes.run.offered is None
