"""Toy nodes for the tests of supervisor and runtime."""

import signal
from collections.abc import Iterator

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.toy_harness import StartNode, ToyNode, toy_nodes


@pytest.fixture
def start(leftovers: Leftovers) -> Iterator[StartNode]:
    """Start toy nodes, which must leave nothing behind."""
    with toy_nodes(leftovers) as start_one:
        yield start_one


@pytest.fixture(scope="module")
def shared_node(request: pytest.FixtureRequest, module_leftovers: Leftovers) -> Iterator[ToyNode]:
    """Yield a node with the settings SHARED of the module, which must stop in order after its tests.

    It is one under nohup, unless it reads its options again."""
    settings = getattr(request.module, "SHARED", {})
    with toy_nodes(module_leftovers) as start_one:
        ignored = () if "reload" in settings else (signal.SIGHUP,)
        node = start_one(settings, ignored=ignored).wait_until_ready()
        assert node.directory.exists()
        yield node
        node.stop()


@pytest.fixture
def running(shared_node: ToyNode) -> Iterator[ToyNode]:
    """Yield a node that other tests have used before, with the log since the start of the test."""
    shared_node.begin()
    yield shared_node
    assert shared_node.program.poll() is None
