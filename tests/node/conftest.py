"""Toy nodes for the tests of supervisor and runtime."""

from collections.abc import Iterator

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.toy_harness import StartNode, toy_nodes


@pytest.fixture
def start(leftovers: Leftovers) -> Iterator[StartNode]:
    """Starts toy nodes, which must leave nothing behind."""
    with toy_nodes(leftovers) as start_one:
        yield start_one
