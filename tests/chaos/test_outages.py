"""An external L1 and its Beacon API are unreachable for a while during a run: the nodes report it in `/readyz`, and
end with equal output roots after the outage."""

import json
from functools import partial

from rollup_node.tools.devnet.cli import main
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet, Program, reports_problem
from tests.support.servers.tcp_relay import TcpRelay

L1_FLAGS = ("--slot-time", "1")


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_l1_and_beacon_outages_of_all_nodes(leftovers: Leftovers) -> None:
    directory = leftovers.folder / "net"
    assert main(["--prepare", "--data-dir", str(directory)]) == 0
    genesis = directory / "l1-genesis.json"
    with Program(leftovers, "rollup_node.tools.devnet.l1", "--genesis", str(genesis), *L1_FLAGS) as l1_program:
        words = l1_program.wait_for_line("L1 ").split()
        l1, beacon = (TcpRelay(port_of(words[words.index(name) + 1])) for name in ("L1", "beacon"))
        with l1, beacon, Devnet(leftovers, "--l1", l1.url, "--beacon", beacon.url) as net:
            net.wait_for_first_safe()
            assert json.loads((net.root / "rollup.json").read_text())["genesis"]["l1"]["hash"] == words[-1]
            for relay, process in ((beacon, "blobs"), (l1, "l1")):
                relay.cut()
                text = f"{relay.name}: cannot connect (Connection refused)"
                for name in net.nodes:
                    rpc = net.node(name)["rpc"]
                    net.wait(partial(reports_problem, rpc, process, text), f"problem of {name}: {process}: {text}")
                relay.restore()
                net.wait(lambda: all(map(net.is_ready, net.nodes)), "ready nodes")
                higher = net.safe_number() + 2
                for name in net.nodes:
                    net.wait_for_safe(higher, name)
            net.finish()
