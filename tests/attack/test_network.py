"""A whole network under attack: while its RPC servers, its P2P listeners and its metrics are attacked at once, it
sequences, derives and answers, and no process is restarted or grows beyond its bound."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.process_memory import peak_memory
from tests.support.processes.programs import CALLDATA, Devnet, Program, call, http_get

ROOT = Path(__file__).parents[2]
MEMORY_MB = {"rpc": 200, "derivation": 300, "compute": 300, "l1": 300, "blobs": 300, "p2p": 250}
"""Bounds of docs/security.md."""

RPC_ATTACKS = {"sequencer": ("many_calls", "half_sent_bodies"), "verifier": ("many_calls", "idle_connections")}
BLOCKS = 3
WARNINGS_BYTES = 1_000_000 // 60
"""What warnings and errors may take in a minute."""


@pytest.fixture
def net(leftovers: Leftovers) -> Iterator[Devnet]:
    """A sequencer and a verifier, which end with equal output roots."""
    with Devnet(leftovers, *CALLDATA) as running:
        running.wait_for_first_safe()
        yield running
        running.finish()


def attackers(leftovers: Leftovers, net: Devnet) -> Iterator[Program]:
    """The programs that attack both nodes."""
    for number, name in enumerate(net.nodes):
        port = str(urlsplit(net.node(name)["rpc"]).port)
        for attack in RPC_ATTACKS[name]:
            words = (attack, port, f"127.0.0.{2 + number}")
            yield Program(leftovers, "tests.support.rpc.attackers", *words, PYTHONPATH=str(ROOT))
        words = ("stalled_messages", net.node(name)["p2p"], "0")
        yield Program(leftovers, "tests.support.p2p.attackers", *words, PYTHONPATH=str(ROOT))


def warnings(net: Devnet, name: str) -> list[str]:
    """The lines of a node's log that are not about its normal work."""
    return [line for line in net.log(name).splitlines() if "lvl=info" not in line]


def test_a_network_goes_on_while_it_is_attacked(net: Devnet, leftovers: Leftovers) -> None:
    before = {name: net.processes(name) for name in net.nodes}
    logged = {name: len("".join(warnings(net, name))) for name in net.nodes}
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(program) for program in attackers(leftovers, net)]
        target = {name: net.safe_number(name) + BLOCKS for name in net.nodes}
        for name in net.nodes:
            net.wait_for_safe(target[name], name)
            url = net.node(name)["rpc"]
            assert http_get(f"{url}/healthz")[0] == 200
            assert call(url, "optimism_syncStatus")["unsafe_l2"]["number"] >= target[name]
        assert all(program.running for program in programs)
    for name in net.nodes:
        after = net.processes(name)
        assert {role: entry["incarnation"] for role, entry in after.items()} == {
            role: entry["incarnation"] for role, entry in before[name].items()
        }
        for role, entry in after.items():
            bound = MEMORY_MB.get(role.partition(":")[0])
            assert bound is None or peak_memory(entry["pid"]) < bound << 20, (name, role)
        lines = warnings(net, name)
        assert len("".join(lines)) - logged[name] < WARNINGS_BYTES, lines[-20:]
