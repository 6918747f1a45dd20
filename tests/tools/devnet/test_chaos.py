"""`rollup-node devnet --chaos`: sequencers are stopped, killed and failed over, engines are restarted, and it stays one
chain."""

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Program

BLOCKS = 8
FAULTS = 2
"""A stop of the sequencer, and a transfer of the lead."""
END_SECONDS = 58.0


def test_one_chain_whatever_happens_to_the_sequencers(leftovers: Leftovers) -> None:
    pace = ("--l1-block-time", "1", "--blocks", str(BLOCKS))
    roles = ("--sequencers", "2", "--conductor", "--chaos", "2", "--chaos-faults", str(FAULTS))
    with Program(leftovers, "rollup_node", "devnet", "--json", *pace, *roles, *CALLDATA) as program:
        ended = program.wait_for_exit(END_SECONDS)
    assert (ended.code, ended.err) == (0, ""), ended
    result = ended.json_result()
    assert result["output_roots_equal"] is True and result["safe"] >= BLOCKS
    chaos = result["chaos"]
    assert sum(chaos["faults"].values()) >= FAULTS and chaos["failovers"] >= 1, chaos
    assert chaos["committed"] >= BLOCKS and chaos["gossiped"] > 0, chaos
    assert (chaos["signed_twice"], chaos["gossiped_uncommitted"], chaos["off_the_chain"]) == ([], [], [])
