"""Toy nodes for the tests of supervisor and runtime."""

import signal
from collections.abc import Iterator

import pytest

from rollup_node.tools.devnet.fork_server import ForkServer
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.toy_harness import StartNode, ToyNode, toy_nodes


@pytest.fixture
def start(leftovers: Leftovers, fork_server: ForkServer) -> Iterator[StartNode]:
    """Start toy nodes, which must leave nothing behind."""
    with toy_nodes(leftovers, fork_server) as start_one:
        yield start_one


@pytest.fixture(scope="module")
def shared_node(module_leftovers: Leftovers, fork_server: ForkServer) -> Iterator[ToyNode]:
    """Yield a node under nohup, which must stop in order after the tests of a module."""
    with toy_nodes(module_leftovers, fork_server) as start_one:
        node = start_one(ignored=(signal.SIGHUP,)).wait_until_ready()
        assert node.directory.exists()
        yield node
        node.stop()


@pytest.fixture
def running(shared_node: ToyNode) -> ToyNode:
    """Return a node that other tests have used before, with the log since the start of the test."""
    shared_node.begin()
    return shared_node
