"""Reasons of Alt-DA: commitments without usable input."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason


@reason("AD1", "pipeline", "a challenge expired whose commitment was read before")
class ChallengeExpired(Reason, frozen=True): ...


@reason("AD3", "commitment", "no bytes")
class CommitmentEmpty(Reason, frozen=True): ...


@reason("AD5", "commitment", "malformed commitment: {error}")
class CommitmentMalformed(Reason, frozen=True):
    error: str


@reason("AD6", "commitment", "commitment has type {kind}, the chain uses type {expected}")
class CommitmentTypeMismatch(Reason, frozen=True):
    kind: int
    expected: int


@reason("AD6", "commitment", "the challenge of {commitment} expired")
class CommitmentExpired(Reason, frozen=True):
    commitment: bytes


@reason("AD6", "pipeline", "the state of commitment {commitment} is that of another L1 chain")
class CommitmentReorged(Reason, frozen=True):
    commitment: bytes


@reason("AD7", "commitment", "input of {size} bytes, the limit is {limit}")
class CommitmentInputTooLarge(Reason, frozen=True):
    size: int
    limit: int
