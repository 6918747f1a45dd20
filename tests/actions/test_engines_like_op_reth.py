"""A batcher posts blocks with transactions that cannot be executed, in a network whose engines answer as op-geth, as
op-reth, and with one of their differences: each node replaces these blocks by their deposits and goes on [ATT34, ATT47,
ATT48]."""

from rollup_node.tools.devnet.engine.engine_api import Trait
from tests.support.engine.lying_batcher import lying_batcher, wait_for_replacements
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet

ADDED = ("nonce too high", "r of no point", "more gas than the one before leaves")
"""The transactions of the table that are added to three blocks."""
LEFT_OUT, INVALID, LOST = "TRANSACTION-LEFT-OUT", "TRANSACTION-INVALID", "BUILD-LOST"
TEXTS = {
    "sequencer": ("nonce too high", "invalid transaction signature", "gas limit of the block reached"),
    "verifier": (LEFT_OUT, "invalid transaction signature", "gas limit of the block reached"),
    "verifier-2": (LEFT_OUT, LOST, INVALID, "is of no key", "and those before it leave"),
}
"""What each node has in its log about them."""
TRAITS = (f"verifier={Trait.SKIP}", f"verifier-2={Trait.SKIP}", f"verifier-2={Trait.LOST_BUILD}")


def test_the_nodes_stay_with_the_network(leftovers: Leftovers) -> None:
    likes = [f"--engine-like={trait}" for trait in TRAITS]
    with Devnet(leftovers, "--no-batcher", "--nodes", "2", *CALLDATA, *likes) as net:
        net.nodes = tuple(TEXTS)
        with lying_batcher(leftovers, net, "span", ADDED) as batcher:
            wait_for_replacements(net, TEXTS)
            batcher.stop()
        net.finish()
