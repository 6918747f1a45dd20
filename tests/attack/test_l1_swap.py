"""For a while another chain answers behind the L1 URL: afterwards both nodes derive and finalize again, and no process
was restarted [LHD23, FIN9]."""

import json
import time

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, Program, call, wait_for
from tests.support.servers.tcp_relay import TcpRelay

SLOTS = ("--slot-time", "1")
OTHER_GENESIS = {"number": "0x800"}
"""The other chain has the same chain id, and its finalized block is far above the head of the nodes' chain."""


SWAPPED_SECONDS = 6.0
"""Three polls of the finalized block."""


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def number_of(url: str, label: str) -> int:
    return int(call(url, "eth_getBlockByNumber", label, False)["number"], 16)


def test_a_chain_that_takes_the_place_of_l1_for_a_while(leftovers: Leftovers) -> None:
    directory = leftovers.folder / "net"
    with Program(leftovers, "rollup_node.node", "devnet", "--prepare", "--data-dir", str(directory)) as prepare:
        assert prepare.wait_for_exit().code == 0
    genesis = directory / "l1-genesis.json"
    other_genesis = leftovers.folder / "other-genesis.json"
    values = json.loads(genesis.read_text())
    other_genesis.write_text(json.dumps(values | OTHER_GENESIS))
    l1_program = Program(leftovers, "rollup_node.tools.devnet.l1", "--genesis", str(genesis), *SLOTS)
    other_program = Program(leftovers, "rollup_node.tools.devnet.l1", "--genesis", str(other_genesis), *SLOTS)
    with l1_program, other_program:
        words, other_words = (program.wait_for_line("L1 ").split() for program in (l1_program, other_program))
        l1_url, other_url = (line[line.index("L1") + 1] for line in (words, other_words))
        beacon = words[words.index("beacon") + 1]
        with (
            TcpRelay(port_of(l1_url)) as relay,
            Devnet(leftovers, "--l1", relay.url, "--beacon", beacon, *CALLDATA) as net,
        ):
            net.wait_for_first_safe()
            net.wait(lambda: net.finalized_number("verifier") > 0, "a finalized block")
            before = {name: net.processes(name) for name in net.nodes}
            assert number_of(other_url, "finalized") > number_of(l1_url, "latest")
            relay.redirect(port_of(other_url))
            time.sleep(SWAPPED_SECONDS)
            relay.redirect(port_of(l1_url))
            final, safe = net.finalized_number("verifier"), net.safe_number()
            net.wait(lambda: net.finalized_number("verifier") > final, "finality after the other chain")
            net.wait(lambda: net.safe_number() > safe, "safe blocks after the other chain")
            wait_for(lambda: net.is_ready("verifier"), "a ready verifier")
            for name in net.nodes:
                assert net.processes(name).keys() == before[name].keys()
                for role, entry in net.processes(name).items():
                    assert entry["incarnation"] == before[name][role]["incarnation"], role
            net.finish()
