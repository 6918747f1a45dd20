"""The forks of the embedded L1's beacon chain by time."""

from rollup_node.tools.devnet.evm.state_transition.forks import L1_FORKS
from rollup_node.tools.devnet.l1.consensus import CONSENSUS_FORKS, consensus_rules


def test_they_activate_with_the_forks_of_the_execution_layer() -> None:
    rules = consensus_rules({"cancunTime": 0, "pragueTime": 0, "osakaTime": 5, "bpo1Time": 6, "amsterdamTime": 9})
    assert [rules.at(time).name for time in (4, 5, 6, 8, 9, 99)] == ["electra", *3 * ["fulu"], "gloas", "gloas"]
    assert [rules.at(time).has_bids for time in (8, 9)] == [False, True]
    assert consensus_rules({}).at(5).name == "bellatrix"
    assert CONSENSUS_FORKS.keys() <= {each.name for each in L1_FORKS}
