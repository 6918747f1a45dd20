"""The p2p process under attack by what connected peers send and do not read: its memory, descriptors and log stay
within the bounds of docs/security.md, and the blocks of an honest peer arrive meanwhile."""

import os

import pytest

from rollup_node.stages.p2p.reqresp.payload_by_number import ResultCode
from tests.support.p2p.attacked_p2p import Attacked, Attackers, HonestPeer, P2pProcess, attack_within_bounds, until
from tests.support.p2p.attackers import MESSAGE_ATTACKS
from tests.support.timing.stopwatch import Stopwatch

REQUEST_SECONDS = 10.0


@pytest.mark.parametrize("attack", MESSAGE_ATTACKS)
def test_an_attack(attacked: Attacked, attackers: Attackers, attack: str) -> None:
    attack_within_bounds(attacked, attackers, attack)


def test_requests_of_an_honest_peer_are_served_among_many_of_others(attacked: Attacked, attackers: Attackers) -> None:
    """Sixty peers request as much as their own limits allow, four times what is served to all."""

    async def scenario(process: P2pProcess, honest: HonestPeer) -> None:
        async with attackers.attacking("unread_blocks", process):
            await until(lambda: attackers.is_under_way)
            for number in (1, 2):
                stopwatch = Stopwatch(process.pid, os.getpid())
                response = await honest.request_block(number)
                seconds = stopwatch.seconds
                print(f"request {number}: code {response[0]} after {seconds:.2f} s")
                assert response[0] == ResultCode.OK, f"code {response[0]} after {seconds:.2f} s"
                assert seconds < REQUEST_SECONDS

    attacked.run(scenario)
