"""The checks of executing messages [EM1 to EM11, CY1 to CY5], and what they have to read of blocks verified before.

`stored` says what the interop database has at a place: the hash of the log, empty bytes where the block has no such
log, None where the block is not in it."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.protocol.interop_messages import BlockLogs, ExecutingMessage
from rollup_node.stages.protocol.types import Hash


class Invalidity(Enum):
    """Why a block is invalid: the rule, and what it says of the message."""

    UNKNOWN_SOURCE = ("EM1", "its chain is not in the dependency set")
    UNKNOWN_CHAIN = ("EM2", "the chain that executes it is not in the dependency set")
    EXECUTED_TOO_EARLY = ("EM5", "it is executed before the chain's second block with interop")
    INITIATED_TOO_EARLY = ("EM6", "it is from before its chain's second block with interop")
    IN_THE_FUTURE = ("EM7", "it is from after the block that executes it")
    EXPIRED = ("EM8", "it has expired")
    NOT_THERE = ("EM10", "its chain does not have it")
    CYCLE = ("CY3", "messages of one second depend on each other in a circle")

    def __init__(self, rule: str, text: str) -> None:
        self.rule, self.text = rule, text


class LogPlace(NamedTuple):
    """Where a log is: chain id, block number, index in the block."""

    chain_id: int
    number: int
    log_index: int


Stored = Mapping[LogPlace, Hash | None]


class BlockVerdict(msgspec.Struct, frozen=True):
    """Why a chain's block is invalid; the message with its log index, None for a cycle."""

    invalidity: Invalidity
    message: tuple[int, ExecutingMessage] | None = None

    def __str__(self) -> str:
        about = "" if self.message is None else f"log {self.message[0]} executes a {self.message[1]}: "
        return f"{about}{self.invalidity.text} [{self.invalidity.rule}]"


class HeadVerdicts(msgspec.Struct, frozen=True):
    """The invalid blocks by chain; `unread` are places that must be read first, `missing` those that are not known."""

    invalid: dict[int, BlockVerdict]
    unread: frozenset[LogPlace]
    missing: frozenset[LogPlace]


def check_claim(
    config: InteropConfig, chain_id: int, timestamp: int, message: ExecutingMessage
) -> Invalidity | LogPlace:
    """Check what a message says of itself, executed at that time in seconds; return where it must be [EM1 to EM8].

    A block of the source chain has one number for a time, so a message with another number is nowhere [EM10]."""
    source, chain = config.chains.get(message.chain_id), config.chains.get(chain_id)
    if source is None:
        return Invalidity.UNKNOWN_SOURCE
    if chain is None:
        return Invalidity.UNKNOWN_CHAIN
    if timestamp < config.activation + chain.block_time:
        return Invalidity.EXECUTED_TOO_EARLY
    if message.timestamp < config.activation + source.block_time:
        return Invalidity.INITIATED_TOO_EARLY
    if message.timestamp > timestamp:
        return Invalidity.IN_THE_FUTURE
    if timestamp - message.timestamp > config.expiry_window:
        return Invalidity.EXPIRED
    number = message.block_number
    if number < source.genesis.l2.number or source.timestamp_of(number) != message.timestamp:
        return Invalidity.NOT_THERE
    return LogPlace(message.chain_id, number, message.log_index)


def check_heads(
    config: InteropConfig, timestamp: int, heads: Mapping[int, BlockLogs], stored: Stored, unchecked: Collection[int]
) -> HeadVerdicts:
    """Check the messages of the heads of a round, those of the chains `unchecked` [EM9 to EM11, CY4].

    A message that fails makes its block invalid, whatever is not known of the others of that block."""
    invalid: dict[int, BlockVerdict] = {}
    unread: set[LogPlace] = set()
    missing: set[LogPlace] = set()
    for chain_id in sorted(unchecked):
        logs = heads[chain_id]
        for index, message in logs.executing:
            result = check_claim(config, chain_id, logs.block.timestamp, message)
            if isinstance(result, LogPlace):
                hashed = _hash_at(result, heads, stored)
                if hashed is None:
                    (missing if result in stored else unread).add(result)
                    continue
                if hashed == message.log_hash:
                    continue
                result = Invalidity.NOT_THERE
            invalid[chain_id] = BlockVerdict(result, (index, message))
            break
    for chain_id in cyclic_chains(timestamp, heads):
        invalid.setdefault(chain_id, BlockVerdict(Invalidity.CYCLE))
    return HeadVerdicts(invalid, frozenset(unread), frozenset(missing))


def _hash_at(place: LogPlace, heads: Mapping[int, BlockLogs], stored: Stored) -> Hash | None:
    """Return the hash of a log as in `stored`: of a head of the round, or of a block verified before."""
    head = heads.get(place.chain_id)
    if head is not None and head.block.number == place.number:
        return head.log_hash(place.log_index) or b""
    return stored.get(place)


Node = tuple[int, int]
"""Chain id and log index of an executing message."""


def cyclic_chains(timestamp: int, heads: Mapping[int, BlockLogs]) -> frozenset[int]:
    """Return the chains whose block at that time in seconds has a message which cannot be ordered [CY3].

    Nodes that no other depends on are taken away until there are none. A node that is left is part of a cycle, or a
    node of a cycle depends on it."""
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
    """Return the nodes that each message depends on which is executed in the second in which it was initiated.

    It depends on the one before it in its block, and on the last one of the source chain at or before the log that it
    names [CY1, CY2]."""
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
