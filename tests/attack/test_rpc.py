"""The HTTP servers of the rpc process under attack: memory, descriptors, log and the answers to honest clients stay
within the bounds of docs/security.md, and nothing is restarted."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.processes.attacked_stage import MAX_LOG_BYTES_AN_HOUR
from tests.support.processes.attackers import Attackers
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.process_memory import open_descriptors, peak_memory, reset_peak_memory
from tests.support.processes.programs import Program, call, wait_for
from tests.support.rpc.honest_client import HEALTH_SECONDS, STATUS_SECONDS, HonestClient

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 200 << 20
DESCRIPTORS = 800
BEGIN_SECONDS = 30.0

HONEST, STRANGER = "127.0.0.1", "127.0.0.2"

REQUESTS = (
    *("numbers", "empty_lists", "many_calls", "full_batches", "nested_values", "unread_answers", "flood_of_calls"),
    *("abandoned_calls", "large_payloads", "compressed_bodies", "malformed_requests"),
)
CONNECTIONS = ("idle_connections", "half_sent_bodies", "endless_headers", "pipelined_requests", "pending_calls")


class Process(NamedTuple):
    """An incarnation of the rpc process."""

    pid: int
    incarnation: int


class RpcNode(Program):
    """The rpc process under a supervisor."""

    def __init__(self, leftovers: Leftovers, **settings: Any) -> None:
        self._runtime = leftovers.folder / "runtime"
        words = (str(self._runtime), json.dumps(settings))
        super().__init__(leftovers, "tests.support.rpc.node", *words, PYTHONPATH=str(ROOT))
        self.wait_for_line(" processes are ready")

    def port(self, server: str) -> int:
        """Return the port that a server listens on."""
        return int(self.wait_for_line(f"{server} server is listening").rpartition("port=")[2])

    def rpc(self) -> Process:
        """Return the present rpc process."""
        (entry,) = (
            entry for entry in json.loads((self._runtime / "processes.json").read_text()) if entry["role"] == "rpc"
        )
        return Process(entry["pid"], entry["incarnation"])


@pytest.fixture(scope="module")
def node(module_leftovers: Leftovers) -> Iterator[RpcNode]:
    """Yield the rpc process with its default limits, which withstands one attack after the other."""
    with RpcNode(module_leftovers) as running:
        yield running
        running.stop()


@pytest.fixture(scope="module")
def attackers(module_leftovers: Leftovers) -> Iterator[Attackers]:
    """Yield the program that attacks."""
    with Attackers(module_leftovers, "tests.support.rpc.attackers") as running:
        yield running
        running.finish()


def check_bounds(node: RpcNode, attackers: Attackers, attack: str, source: str, server: str = "rpc") -> None:
    """Attacks a server until the honest client has its answers while the attack is under way.

    Everything stays within its bounds meanwhile, and all connections are closed afterwards."""
    url = f"http://127.0.0.1:{node.port('rpc')}"
    wait_for(lambda: call(url, "optimism_syncStatus")["unsafe_l2"]["number"], "heads")
    before, log = node.rpc(), len(node.out)
    honest = HonestClient(node.port("rpc"), before.pid)
    descriptors = idle = open_descriptors(before.pid)
    reset_peak_memory(before.pid)
    attackers.begin(attack, str(node.port(server)), source)
    is_asked, deadline = False, time.monotonic() + BEGIN_SECONDS
    try:
        while not is_asked:
            assert time.monotonic() < deadline, f"{attack} is not under way"
            is_asked = attackers.is_under_way
            assert honest.ask()["unsafe_l2"]["number"] == 20
            descriptors = max(descriptors, open_descriptors(before.pid))
            time.sleep(0.03)
    finally:
        attackers.end()
        wait_for(lambda: attackers.has_stopped, "the attack has ended")
    wait_for(lambda: open_descriptors(before.pid) <= idle, "all connections are closed")
    written = len(node.out) - log
    after = node.rpc()
    figures = (
        f"{attack}: peak {peak_memory(before.pid) >> 20 if after == before else -1} MiB, {descriptors} descriptors,"
        f" {written} bytes of log, healthz {honest.health:.2f} s, syncStatus {honest.status:.2f} s"
    )
    print(figures)
    assert after == before, f"the rpc process was restarted; {figures}\n{node.out[-3000:]}"
    assert peak_memory(before.pid) < MEMORY, figures
    assert descriptors < DESCRIPTORS, figures
    # What is logged once per minute at most may fall into these seconds.
    assert written < MAX_LOG_BYTES_AN_HOUR / 60, f"{figures}\n{node.out[-2000:]}"
    assert honest.health < HEALTH_SECONDS, figures
    assert honest.status < STATUS_SECONDS, figures


@pytest.mark.parametrize(
    ("server", "source", "attack"),
    [
        *(("rpc", STRANGER, attack) for attack in REQUESTS + CONNECTIONS),
        *(("rpc", HONEST, attack) for attack in ("flood_of_calls", "idle_connections", "pending_calls")),
        *(("metrics", STRANGER, attack) for attack in ("flood_of_calls", "idle_connections")),
    ],
)
def test_an_attack(node: RpcNode, attackers: Attackers, server: str, source: str, attack: str) -> None:
    """From another address, or from that of the honest client."""
    check_bounds(node, attackers, attack, source, server)


def test_few_descriptors_are_enough(leftovers: Leftovers, attackers: Attackers) -> None:
    """The limits of connections follow from the descriptors that there are."""
    with RpcNode(leftovers, descriptors=128) as node:
        check_bounds(node, attackers, "idle_connections", STRANGER)
        node.stop()


def test_too_few_descriptors_end_the_start_with_the_reason(leftovers: Leftovers) -> None:
    words = (str(leftovers.folder / "runtime"), json.dumps({"descriptors": 64}))
    with Program(leftovers, "tests.support.rpc.node", *words, PYTHONPATH=str(ROOT)) as program:
        finished = program.wait_for_exit()
    assert finished.code == 1
    assert "open files, and the limit is 64: raise the hard limit" in finished.err
