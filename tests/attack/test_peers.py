"""The p2p process under attack by what connected peers send and do not read, and by connections, streams, identities
and datagrams: its memory, descriptors and log stay within the bounds of docs/security.md, and the blocks of an honest
peer arrive meanwhile."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from rollup_node.stages.p2p.reqresp.payload_by_number import ResultCode
from tests.support.p2p.attacked_p2p import AttackedP2p, HonestPeer, P2pProcess, attack_within_bounds
from tests.support.p2p.attackers import ATTACKS
from tests.support.processes.attackers import Attackers
from tests.support.processes.leftovers import Leftovers
from tests.support.timing.slowness import within
from tests.support.timing.stopwatch import Stopwatch

REQUEST_SECONDS = 10.0
UNREAD_BLOCKS = "unread_blocks"
"""The attack during which the honest peer requests blocks."""


@pytest.fixture(scope="module")
def attacked(module_leftovers: Leftovers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedP2p]:
    """Yield the p2p process that the tests attack, and the honest peer."""
    with contextlib.closing(AttackedP2p(module_leftovers, tmp_path_factory.mktemp("honest"))) as result:
        yield result


@pytest.fixture(scope="module")
def attackers(module_leftovers: Leftovers) -> Iterator[Attackers]:
    """Yield the program that attacks it."""
    with Attackers(module_leftovers, "tests.support.p2p.attackers") as running:
        yield running
        running.finish()


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if attack != UNREAD_BLOCKS])
def test_an_attack(attacked: AttackedP2p, attackers: Attackers, attack: str) -> None:
    attack_within_bounds(attacked, attackers, attack)


def test_requests_of_an_honest_peer_are_served_among_many_of_others(
    attacked: AttackedP2p, attackers: Attackers
) -> None:
    """Sixty peers request as much as their own limits allow, four times what is served to all."""

    async def request(process: P2pProcess, honest: HonestPeer) -> None:
        for number in (1, 2):
            stopwatch = Stopwatch(process.pid, os.getpid())
            response = await honest.request_block(number)
            seconds = stopwatch.seconds
            print(f"request {number}: code {response[0]} after {seconds:.2f} s")
            assert response[0] == ResultCode.OK, f"code {response[0]} after {seconds:.2f} s"
            assert within(seconds, REQUEST_SECONDS)

    attack_within_bounds(attacked, attackers, UNREAD_BLOCKS, request)
