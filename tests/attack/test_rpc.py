"""The HTTP servers of the rpc process under attack: memory, descriptors, log and the answers to honest clients stay
within the bounds of docs/security.md, and nothing is restarted."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.processes.attacked_node import AttackedNode
from tests.support.processes.attackers import Attackers
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.process_memory import open_descriptors
from tests.support.processes.programs import Program, call, wait_for
from tests.support.timing.slowness import within

MODULE = "tests.support.processes.partial_node"
MEMORY = 200 << 20
DESCRIPTORS = 800
BEGIN_SECONDS = 30.0

HONEST, STRANGER = "127.0.0.1", "127.0.0.2"

REQUESTS = (
    *("numbers", "empty_lists", "many_calls", "full_batches", "nested_values", "unread_answers", "flood_of_calls"),
    *("abandoned_calls", "large_payloads", "compressed_bodies", "malformed_requests"),
)
CONNECTIONS = ("idle_connections", "half_sent_bodies", "endless_headers", "pipelined_requests", "pending_calls")


def rpc_node(leftovers: Leftovers, **settings: Any) -> AttackedNode:
    """Start the rpc process under a supervisor."""
    return AttackedNode(leftovers, MODULE, leftovers.folder / "run", str(leftovers.folder), json.dumps(settings))


@pytest.fixture(scope="module")
def node(module_leftovers: Leftovers) -> Iterator[AttackedNode]:
    """Yield the rpc process with its default limits, which withstands one attack after the other."""
    with rpc_node(module_leftovers) as running:
        yield running
        running.stop()


@pytest.fixture(scope="module")
def attackers(module_leftovers: Leftovers) -> Iterator[Attackers]:
    """Yield the program that attacks."""
    with Attackers(module_leftovers, "tests.support.rpc.attackers") as running:
        yield running
        running.finish()


def check_bounds(node: AttackedNode, attackers: Attackers, attack: str, source: str, server: str = "rpc") -> None:
    """Attacks a server until the honest client has its answers while the attack is under way.

    Everything stays within its bounds meanwhile, and all connections are closed afterwards."""
    url = f"http://127.0.0.1:{node.port()}"
    wait_for(lambda: call(url, "optimism_syncStatus")["unsafe_l2"]["number"], "heads")
    pid = node.entry("rpc")["pid"]
    descriptors = idle = open_descriptors(pid)
    with node.within_bounds(attack, {"rpc": MEMORY}) as honest:
        attackers.begin(attack, str(node.port(server)), source)
        is_asked, begin = False, time.monotonic()
        try:
            while not is_asked:
                assert within(time.monotonic() - begin, BEGIN_SECONDS), f"{attack} is not under way"
                is_asked = attackers.is_under_way
                assert honest.ask()["unsafe_l2"]["number"] == 20
                descriptors = max(descriptors, open_descriptors(pid))
                time.sleep(0.03)
        finally:
            attackers.end()
            wait_for(lambda: attackers.has_stopped, "the attack has ended")
        wait_for(lambda: open_descriptors(pid) <= idle, "all connections are closed")
    assert descriptors < DESCRIPTORS, f"{attack}: {descriptors} descriptors"


@pytest.mark.parametrize(
    ("server", "source", "attack"),
    [
        *(("rpc", STRANGER, attack) for attack in REQUESTS + CONNECTIONS),
        *(("rpc", HONEST, attack) for attack in ("flood_of_calls", "idle_connections", "pending_calls")),
        *(("metrics", STRANGER, attack) for attack in ("flood_of_calls", "idle_connections")),
    ],
)
def test_an_attack(node: AttackedNode, attackers: Attackers, server: str, source: str, attack: str) -> None:
    """From another address, or from that of the honest client."""
    check_bounds(node, attackers, attack, source, server)


def test_few_descriptors_are_enough(leftovers: Leftovers, attackers: Attackers) -> None:
    """The limits of connections follow from the descriptors that there are."""
    with rpc_node(leftovers, descriptors=128) as node:
        check_bounds(node, attackers, "idle_connections", STRANGER)
        node.stop()


def test_too_few_descriptors_end_the_start_with_the_reason(leftovers: Leftovers) -> None:
    words = (str(leftovers.folder), json.dumps({"descriptors": 64}))
    with Program(leftovers, MODULE, *words) as program:
        finished = program.wait_for_exit()
    assert finished.code == 1
    assert "open files, and the limit is 64: raise the hard limit" in finished.err
