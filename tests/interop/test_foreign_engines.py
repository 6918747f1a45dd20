"""Local networks with the engines of others.

They cross Karst and Lagoon as the embedded engine does [UPG17, UPG18]. Where a batcher posts blocks with
transactions that cannot be executed, all nodes have the same blocks, in the place of these their deposits [ATT34,
ATT47 to ATT49]."""

import json
from contextlib import ExitStack

import pytest

from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from tests.support.engine.lying_batcher import EMBEDDED, LAST, OP_RETH, replace_lies
from tests.support.foreign.engines import ENGINES, foreign_engine, prepared
from tests.support.foreign.op_programs import find_program
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.lossy_network import lossy_network
from tests.support.processes.programs import CALLDATA, Devnet, call

TEXTS = {"embedded": EMBEDDED, "op-geth": ("nonce too high", "recovery failed"), "op-reth": OP_RETH}
"""What the log of a node with each engine says of the three transactions."""
FORKS = {"jovian": 2, "karst": 4, "lagoon": 9}
CROSSING = ("--l2-block-time=1", *(f"--fork={fork}={offset}" for fork, offset in FORKS.items()))


@pytest.mark.parametrize("others", [(), ("--dependency-set=902",)], ids=["one chain", "two chains"])
@pytest.mark.parametrize("name", ENGINES)
def test_lagoon_is_crossed(name: str, others: tuple[str, ...], leftovers: Leftovers) -> None:
    flags = (*CROSSING, *others)
    genesis, jwt = prepared(leftovers, *flags)
    with (
        foreign_engine(name, leftovers, genesis, jwt) as engine,
        Devnet(leftovers, *CALLDATA, *flags, f"--verifier-engine={engine.http},{engine.auth}") as net,
    ):
        last = FORKS["lagoon"] + 2
        net.wait_for_safe(last)
        urls = (net.node("sequencer")["engine"], engine.http)
        for number in (FORKS["karst"], FORKS["lagoon"], last):
            embedded, foreign = (call(url, "eth_getBlockByNumber", hex(number), False) for url in urls)
            assert embedded["hash"] == foreign["hash"], number
        activation = call(engine.http, "eth_getBlockByNumber", hex(FORKS["lagoon"]), False)
        upgrade = len(load_bundle("lagoon").transactions) + (2 if others else 0)
        assert len(activation["transactions"]) >= 1 + upgrade
        net.finish()


@pytest.mark.parametrize(
    "engines",
    [*({"verifier": name} for name in ENGINES), {"sequencer": "op-reth", "verifier": "op-reth"}],
    ids=lambda engines: " and ".join(f"{node} on {name}" for node, name in engines.items()),
)
def test_a_network(engines: dict[str, str], leftovers: Leftovers) -> None:
    for name in engines.values():
        find_program(name)
    genesis, jwt = prepared(leftovers)
    with ExitStack() as stack:
        running = {
            node: stack.enter_context(foreign_engine(name, leftovers, genesis, jwt)) for node, name in engines.items()
        }
        time = json.loads(genesis.read_text())["timestamp"]
        flags = [f"--{node}-engine={item.http},{item.auth}" for node, item in running.items()]
        for item in running.values():
            assert call(item.http, "eth_getBlockByNumber", "0x0", False)["timestamp"] == time
        with Devnet(leftovers, "--no-batcher", *flags, *CALLDATA) as net:
            replace_lies(leftovers, net, {node: TEXTS[engines.get(node, "embedded")] for node in net.nodes})
            engines_of = [net.node(node)["engine"] for node in net.nodes]
            result = {call(url, "eth_getBlockByNumber", hex(LAST), False)["hash"] for url in engines_of}
            assert len(result) == 1
            net.finish()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_that_is_killed_under_the_sequencer(name: str, leftovers: Leftovers) -> None:
    """[SEQ39] op-reth keeps its newest blocks in memory. Without a batcher, the verifier has gossip alone."""
    find_program(name)
    with lossy_network(leftovers, name) as net:
        for roles in ((), ("node",), ()):
            net.lose(0, *roles)
            net.advance(3)
