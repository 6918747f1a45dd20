"""The sequencer's execution engine is killed again and again, alone and with processes of the node, and each time comes
back without its newest blocks, which were signed and gossiped. There is no batcher: the verifier goes on because the
sequencer puts them back before it builds others [SEQ39]."""

from collections.abc import Iterator

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.lossy_network import LossyNetwork, lossy_network

pytestmark = pytest.mark.fault("F44")


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[LossyNetwork]:
    with lossy_network(module_leftovers) as running:
        yield running


def test_the_engine_is_killed_under_the_sequencer(net: LossyNetwork) -> None:
    for lost in (1, 2, 3):
        net.lose(lost)
        net.advance(2)


@pytest.mark.parametrize("role", ["engine", "p2p", "node"])
def test_the_engine_is_killed_together_with_processes_of_the_node(net: LossyNetwork, role: str) -> None:
    """Then the p2p process, or its file, has the blocks."""
    net.lose(2, role)
    net.advance(2)
