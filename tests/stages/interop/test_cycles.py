"""Cycles in one second: the shapes of op-supernode's cycle_test.go (ethereum-optimism/optimism, June 2026), and others.

A shape says for each chain which log (by index) executes which log of which chain."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.interop.cycles import cyclic_chains
from rollup_node.stages.protocol.interop_messages import BlockLogs, ExecutingMessage
from tests.support.interop.values import block

A, B, C, D = 10, 8453, 420, 999
T = 1000

Shape = Mapping[int, Mapping[int, tuple[int, int]]]


def heads(shape: Shape, timestamp: int = T) -> dict[int, BlockLogs]:
    """Return the blocks of a shape; the messages that they execute are from `timestamp`."""
    return {
        chain_id: BlockLogs(
            block(5, T),
            b"",
            tuple(
                (index, ExecutingMessage(source.to_bytes(32, "big"), 5, log, timestamp, b""))
                for index, (source, log) in sorted(messages.items())
            ),
        )
        for chain_id, messages in shape.items()
    }


SHAPES: dict[str, tuple[Shape, set[int]]] = {
    "no chains": ({}, set()),
    "no messages": ({A: {}, B: {}}, set()),
    "a chain without messages is named": ({A: {0: (B, 0)}}, set()),
    "two chains in a circle": ({A: {0: (B, 0)}, B: {0: (A, 0)}}, {A, B}),
    "three chains in a circle": ({A: {0: (B, 0)}, B: {0: (C, 0)}, C: {0: (A, 0)}}, {A, B, C}),
    "a bystander that names another chain": ({A: {0: (C, 0)}, C: {0: (A, 0)}, B: {0: (D, 0)}}, {A, C}),
    "one way": ({A: {0: (B, 5)}, B: {3: (C, 0)}}, set()),
    "the named log is before the message": ({A: {0: (B, 2)}, B: {3: (A, 0)}}, set()),
    "messages of a chain in a row": ({A: {0: (B, 0), 5: (B, 3)}}, set()),
    "a circle that lacks a leg": ({A: {5: (B, 3)}, B: {5: (C, 3)}, C: {5: (A, 3)}}, set()),
    "one message": ({A: {0: (B, 7)}}, set()),
    "a line over three chains": ({A: {0: (B, 0)}, B: {0: (C, 0)}, C: {0: (D, 0)}}, set()),
    "a diamond": ({D: {0: (B, 0), 1: (C, 0)}, B: {0: (A, 0)}, C: {0: (A, 0)}, A: {0: (9, 0)}}, set()),
    "three messages of a chain in a row": ({A: {0: (B, 0), 1: (B, 0), 2: (B, 0)}}, set()),
    "the second message names a chain": ({A: {1: (B, 0)}, B: {}}, set()),
    "no message at or before the named log": ({A: {0: (B, 3)}, B: {5: (A, 0), 10: (A, 0)}}, set()),
    "a message exactly at the named log": ({A: {0: (B, 5)}, B: {2: (D, 0), 5: (A, 0)}}, {A, B}),
    "the latest message before the named log": ({A: {0: (B, 5)}, B: {1: (D, 0), 3: (A, 0), 7: (D, 0)}}, {A, B}),
    "a message at the named log 0": ({A: {0: (B, 0)}, B: {0: (A, 0), 5: (D, 0)}}, {A, B}),
    "no message at the named log 0": ({A: {0: (B, 0)}, B: {1: (A, 0), 5: (A, 0)}}, set()),
    "a message that names its own log": ({A: {3: (A, 3)}}, {A}),
    "a message that names a later log of its chain": ({A: {3: (A, 5)}}, {A}),
    "a message that names an earlier log of its chain": ({A: {3: (A, 2)}}, set()),
    "what depends on a circle is not in it": ({A: {0: (B, 0)}, B: {0: (A, 0)}, C: {0: (A, 0)}}, {A, B}),
    "what a circle depends on counts as in it": (
        {A: {0: (B, 5)}, B: {0: (A, 0), 5: (C, 9)}, C: {3: (D, 0)}},
        {A, B, C},
    ),
    "a circle through the order in a block": ({A: {0: (B, 1), 4: (C, 0)}, B: {1: (A, 5)}, C: {}}, {A, B}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    """[CY1, CY2, CY3, CY5]"""
    shape, wanted = SHAPES[name]
    assert cyclic_chains(T, heads(shape)) == wanted


def test_messages_of_another_second_are_not_in_a_circle() -> None:
    """[CY1]: of the past, or executed by a block that a chain has had for a second."""
    shape = SHAPES["two chains in a circle"][0]
    assert cyclic_chains(T, heads(shape, T - 100)) == set()
    assert cyclic_chains(T + 1, heads(shape)) == set()
    assert cyclic_chains(T + 1, heads(shape, T + 1)) == set()


PLACES = st.tuples(st.sampled_from([A, B, C]), st.integers(0, 4))


@given(st.dictionaries(st.sampled_from([A, B, C]), st.dictionaries(st.integers(0, 4), PLACES, max_size=5)))
@settings(max_examples=200, deadline=None)
def test_the_result_is_that_of_all_paths(shape: dict[int, dict[int, tuple[int, int]]]) -> None:
    """[CY3]: a node stays if it can be reached from a node that can be reached from itself."""
    nodes = [(chain, index) for chain, messages in shape.items() for index in messages]
    reached = {
        (node, other)
        for node in nodes
        for other in nodes
        if other == max(((node[0], i) for i in shape[node[0]] if i < node[1]), default=None)
        or other == _before(shape, shape[node[0]][node[1]])
    }
    for middle in nodes:
        for node in nodes:
            for other in nodes:
                if (node, middle) in reached and (middle, other) in reached:
                    reached.add((node, other))
    on_cycle = {node for node in nodes if (node, node) in reached}
    left = on_cycle | {other for node, other in reached if node in on_cycle}
    assert cyclic_chains(T, heads(shape)) == {chain for chain, _ in left}


def _before(shape: Shape, place: tuple[int, int]) -> tuple[int, int] | None:
    indices = [index for index in shape.get(place[0], {}) if index <= place[1]]
    return (place[0], max(indices)) if indices else None
