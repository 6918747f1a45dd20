"""Reasons of Alt-DA: commitments without usable input."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason


@reason("AD1", "pipeline", "the challenge of {commitment} expired after its input was used")
class ChallengeExpired(Reason, frozen=True):
    commitment: bytes


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


@reason("AD11", "pipeline", "the known challenges of L1 block {number} belong to another L1 chain")
class ChallengesReorged(Reason, frozen=True):
    number: int


@reason("AD7", "commitment", "input of {size} bytes, the limit is {limit}")
class CommitmentInputTooLarge(Reason, frozen=True):
    size: int
    limit: int


@reason("AD10", "challenge", "malformed log {log}: {error}")
class ChallengeMalformed(Reason, frozen=True):
    log: int
    error: str


@reason("AD10", "challenge", "log {log} has status {status}, which changes nothing")
class ChallengeStatusUnknown(Reason, frozen=True):
    log: int
    status: int


@reason("AD10", "challenge", "the calldata of the transaction of log {log} has no data that resolve a challenge")
class ChallengeDataMissing(Reason, frozen=True):
    log: int


@reason("AD10", "challenge", "the data of log {log} do not match {commitment}")
class ChallengeDataMismatch(Reason, frozen=True):
    log: int
    commitment: bytes


@reason("AD10", "challenge", "log {log} resolves a challenge of {commitment} that is not known")
class ChallengeNotTracked(Reason, frozen=True):
    log: int
    commitment: bytes
