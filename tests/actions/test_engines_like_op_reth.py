"""A batcher posts blocks with transactions that cannot be executed, in networks whose engines answer as op-reth does:
each node replaces these blocks by their deposits, as with op-geth, and goes on [ATT34, ATT47, ATT48]."""

from typing import NamedTuple

import pytest

from rollup_node.tools.devnet.engine.engine_api import Trait
from tests.support.engine.lying_batcher import lying_batcher, wait_for_replacements
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet

LEFT_OUT, INVALID, LOST = "TRANSACTION-LEFT-OUT", "TRANSACTION-INVALID", "BUILD-LOST"
MORE_GAS = "more gas than the one before leaves"


class Network(NamedTuple):
    """A network by its batches and what engines do, the transactions of the table that are added to three blocks, and
    the texts for them in the log of each node."""

    batch: str
    traits: tuple[str, ...]
    added: tuple[str, str, str]
    texts: dict[str, tuple[str, ...]]


NETWORKS = {
    "one engine with each difference": Network(
        "span",
        (f"verifier={Trait.SKIP}", f"verifier-2={Trait.LOST_BUILD}"),
        ("nonce too high", "r of no point", MORE_GAS),
        {
            "sequencer": ("nonce too high", "invalid transaction signature", "gas limit of the block reached"),
            "verifier": (LEFT_OUT, "invalid transaction signature", "gas limit of the block reached"),
            "verifier-2": ("nonce too high", LOST, INVALID, "is of no key", "and those before it leave"),
        },
    ),
    "all engines like op-reth": Network(
        "singular",
        (Trait.SKIP, Trait.LOST_BUILD),
        ("nonce too high", "does not decode", "gas limit over the block's"),
        dict.fromkeys(("sequencer", "verifier"), (LEFT_OUT, INVALID, "malformed transaction", "its gas limit is")),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_nodes_stay_with_the_network(name: str, leftovers: Leftovers) -> None:
    network = NETWORKS[name]
    flags = ("--no-batcher", "--nodes", str(len(network.texts) - 1), *CALLDATA)
    likes = [f"--engine-like={trait}" for trait in network.traits]
    with Devnet(leftovers, *flags, *likes) as net:
        net.nodes = tuple(network.texts)
        with lying_batcher(leftovers, net, network.batch, network.added) as batcher:
            wait_for_replacements(net, network.texts)
            batcher.stop()
        net.finish()
