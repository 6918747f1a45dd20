"""The checks of singular batches beyond the conformance cases: every fork's activation block, the start of Lagoon."""

import pytest

from rollup_node.stages.derivation.reasons.singular import ActivationBlockNotEmpty, PostExecNotAllowed
from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness, dropped
from tests.conformance.kit.chain import GENESIS, forks_until
from tests.conformance.kit.planning import USER, channel, plan, refs
from tests.conformance.kit.rollup_chain import RollupChain


@pytest.mark.parametrize("fork", ["jovian", "karst", "lagoon"])
def test_activation_blocks_that_must_be_empty(fork: str) -> None:
    checks = BatchCheckHarness(forks_until("isthmus", **{fork: 1}))
    assert checks.singular(checks.next((USER,))) == dropped(ActivationBlockNotEmpty)
    assert checks.singular(checks.next(())) == ACCEPTED


@pytest.mark.parametrize("fork", ["canyon", "ecotone", "fjord", "granite", "holocene", "isthmus"])
def test_activation_blocks_that_take_user_transactions(fork: str) -> None:
    checks = BatchCheckHarness(forks_until("regolith", **{fork: 2}))
    assert checks.singular(checks.next((USER,))) == ACCEPTED


def test_post_exec_transactions_from_lagoon_on() -> None:
    for lagoon, expected in ((2, dropped(ActivationBlockNotEmpty)), (0, ACCEPTED), (3, dropped(PostExecNotAllowed))):
        checks = BatchCheckHarness(forks_until("holocene", lagoon=lagoon))
        assert checks.singular(checks.next((b"\x7d\xc0",))) == expected


def test_a_fork_at_genesis_has_no_activation_block() -> None:
    (block,) = plan(GENESIS, 1)
    chain = RollupChain(forks_until("jovian"))
    chain.mine(*channel("A", block.singular))
    assert refs(chain.run()) == [block.ref]
