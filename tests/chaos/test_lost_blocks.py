"""The sequencer's execution engine is killed again and again, alone and with processes of the node, and each time comes
back without its newest blocks, which were signed and gossiped. There is no batcher: the verifier goes on because the
sequencer puts them back before it builds others [SEQ39]."""

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.lossy_network import lossy_network

pytestmark = pytest.mark.fault("F44")


def test_the_engine_is_killed_under_the_sequencer(leftovers: Leftovers) -> None:
    with lossy_network(leftovers) as net:
        for lost in (1, 2, 2, 3):
            net.lose(lost)
            net.advance(3)


def test_the_engine_is_killed_together_with_processes_of_the_node(leftovers: Leftovers) -> None:
    """Then the p2p process, or its file, has the blocks."""
    with lossy_network(leftovers) as net:
        for role in ("engine", "p2p", "node"):
            net.lose(2, role)
            net.advance(3)
