"""Toy nodes for the tests of supervisor and runtime."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.leftovers import Leftovers
from tests.support.toy_harness import Line, StartNode, ToyNode


@pytest.fixture
def start(leftovers: Leftovers) -> Iterator[StartNode]:
    """Starts toy nodes, which must leave nothing behind."""
    nodes: list[ToyNode] = []

    def start_one(settings: Line | None = None, **options: Any) -> ToyNode:
        nodes.append(ToyNode(leftovers, settings or {}, **options))
        return nodes[-1]

    yield start_one
    for node in nodes:
        if node.program.poll() is None:
            node.program.kill()
        node.program.communicate()
