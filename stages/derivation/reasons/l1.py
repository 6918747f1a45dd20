"""Reasons of L1 traversal, L1 retrieval, Alt-DA and frames."""

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


@reason("P1", "frames", "no bytes")
class FramesEmpty(Reason, frozen=True): ...


@reason("P2", "frames", "unknown version {version}")
class FramesVersionUnknown(Reason, frozen=True):
    version: int


@reason("P3", "frames", "no frame after the version byte")
class FramesMissing(Reason, frozen=True): ...


@reason("P5", "frames", "frame {frame} at offset {offset} is cut off in its {field}")
class FrameTruncated(Reason, frozen=True):
    frame: int
    offset: int
    field: str


@reason("P6", "frames", "frame {frame} at offset {offset} claims {length} bytes")
class FrameTooLong(Reason, frozen=True):
    frame: int
    offset: int
    length: int


@reason("P8", "frames", "frame {frame} at offset {offset} has end mark {mark}")
class FrameEndMarkInvalid(Reason, frozen=True):
    frame: int
    offset: int
    mark: int


@reason("Q3a", "frame", "frame {number} of channel {channel} follows the closing frame {previous}")
class FrameAfterLast(Reason, frozen=True):
    number: int
    channel: bytes
    previous: int


@reason("Q3b", "frame", "frame {number} of channel {channel} follows frame {previous}")
class FrameOutOfOrder(Reason, frozen=True):
    number: int
    channel: bytes
    previous: int


@reason("Q3c", "frame", "frame {number} of channel {channel} is not the last, yet channel {next} starts")
class FrameOfUnclosedChannel(Reason, frozen=True):
    number: int
    channel: bytes
    next: bytes


@reason("Q3d", "frame", "frame {number} of channel {channel} does not continue channel {previous}")
class FrameNotFirst(Reason, frozen=True):
    number: int
    channel: bytes
    previous: bytes
