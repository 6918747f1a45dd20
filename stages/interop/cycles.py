"""Cycles among the messages that are executed in the second in which they were initiated [CY1 to CY5].

A node is such an executing message. It depends on the one before it in its block, and on the last one of the source
chain at or before the log that it names. Nodes that no other depends on are taken away until there are none. A node
that is left is part of a cycle, or a node of a cycle depends on it."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping

from rollup_node.stages.protocol.interop_messages import BlockLogs

Node = tuple[int, int]
"""Chain id and log index of an executing message."""


def cyclic_chains(timestamp: int, heads: Mapping[int, BlockLogs]) -> frozenset[int]:
    """Return the chains whose block at that time in seconds has a message which cannot be ordered [CY3]."""
    depends_on = _dependencies(timestamp, heads)
    dependents = Counter(node for nodes in depends_on.values() for node in nodes)
    free = [node for node in depends_on if not dependents[node]]
    while free:
        for node in depends_on.pop(free.pop()):
            dependents[node] -= 1
            if not dependents[node]:
                free.append(node)
    return frozenset(chain_id for chain_id, _ in depends_on)


def _dependencies(timestamp: int, heads: Mapping[int, BlockLogs]) -> dict[Node, set[Node]]:
    """Return the nodes that each node depends on [CY1, CY2]."""
    messages = {
        chain_id: [(index, message) for index, message in logs.executing if message.timestamp == timestamp]
        for chain_id, logs in heads.items()
        if logs.block.timestamp == timestamp
    }
    indices = {chain_id: [index for index, _ in entries] for chain_id, entries in messages.items()}
    result: dict[Node, set[Node]] = {}
    for chain_id, entries in messages.items():
        for position, (index, message) in enumerate(entries):
            nodes = result[chain_id, index] = set()
            if position:
                nodes.add((chain_id, indices[chain_id][position - 1]))
            source = indices.get(message.chain_id, [])
            if before := bisect_right(source, message.log_index):
                nodes.add((message.chain_id, source[before - 1]))
    return result
