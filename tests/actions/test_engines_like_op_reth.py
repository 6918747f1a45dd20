"""A batcher posts blocks with transactions that cannot be executed, in a network whose engines answer as op-geth, as
op-reth, and with one of their differences: each node replaces these blocks by their deposits and goes on [ATT34, ATT47,
ATT48]."""

from rollup_node.tools.devnet.engine.engine_api import Trait
from tests.support.engine.lying_batcher import EMBEDDED, OP_RETH, SKIPPING, replace_lies
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet

TEXTS = {"sequencer": EMBEDDED, "verifier": SKIPPING, "verifier-2": OP_RETH}
TRAITS = (f"verifier={Trait.SKIP}", f"verifier-2={Trait.SKIP}", f"verifier-2={Trait.LOST_BUILD}")


def test_the_nodes_stay_with_the_network(leftovers: Leftovers) -> None:
    likes = [f"--engine-like={trait}" for trait in TRAITS]
    with Devnet(leftovers, "--no-batcher", "--nodes", "2", *CALLDATA, *likes) as net:
        net.nodes = tuple(TEXTS)
        replace_lies(leftovers, net, TEXTS)
        net.finish()
