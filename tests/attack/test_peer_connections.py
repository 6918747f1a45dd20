"""The p2p process under attack by connections, streams, identities and datagrams: its memory, descriptors and log stay
within the bounds of docs/security.md, and the blocks of an honest peer arrive meanwhile."""

import pytest

from tests.support.p2p.attacked_p2p import Attacked, Attackers, attack_within_bounds
from tests.support.p2p.attackers import CONNECTION_ATTACKS


@pytest.mark.parametrize("attack", CONNECTION_ATTACKS)
def test_an_attack(attacked: Attacked, attackers: Attackers, attack: str) -> None:
    attack_within_bounds(attacked, attackers, attack)
