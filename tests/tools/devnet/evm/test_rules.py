"""The rules of a fork."""

from rollup_node.tools.devnet.evm.state_transition import forks


def test_all_precompiles_are_warm() -> None:
    for rules in forks.L1_FORKS:
        assert rules.warm_addresses() == set(rules.precompiles)
    assert forks.P256_VERIFY in forks.OSAKA.warm_addresses()
    assert forks.P256_VERIFY not in forks.PRAGUE.warm_addresses()
