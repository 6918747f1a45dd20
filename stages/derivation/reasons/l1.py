"""Reasons of L1 traversal and L1 retrieval: blocks that do not link, transactions and blobs that hold no data."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason
from rollup_node.stages.protocol.types import Address, Hash


@reason("T3", "pipeline", "L1 block {number} has parent {parent}, expected {expected}")
class L1ParentMismatch(Reason, frozen=True):
    number: int
    parent: Hash
    expected: Hash


@reason("T5", "config update", "log {log}: {error}")
class ConfigUpdateMalformed(Reason, frozen=True):
    log: int
    error: str


@reason("T8", "pipeline", "no source has the blobs of L1 block {number}")
class BlobsNotFound(Reason, frozen=True):
    number: int


@reason("RS1", "pipeline", "L1 block {number} is {got}, the reset's base is {expected}")
class ResetBaseMismatch(Reason, frozen=True):
    number: int
    got: Hash
    expected: Hash


@reason("BF4", "transaction", "sender {sender} is not the batcher {batcher}")
class SenderNotBatcher(Reason, frozen=True):
    sender: Address
    batcher: Address


@reason("O7", "blob", "blob {index} ({hash}) does not decode: {error}")
class BlobMalformed(Reason, frozen=True):
    index: int
    hash: Hash
    error: str
