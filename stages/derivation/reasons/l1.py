"""Reasons of L1 traversal, L1 retrieval, Alt-DA and frames."""

from rollup_node.stages.derivation.reasons.reason import ReasonKind, declare

L1ParentMismatch = ReasonKind[int, bytes, bytes](
    "T3", "pipeline", "L1 block {number} has parent {parent}, expected {expected}"
)
ConfigUpdateMalformed = ReasonKind[int, str]("T5", "config update", "log {log}: {error}")
BlobsNotFound = ReasonKind[int]("T8", "pipeline", "no source has the blobs of L1 block {number}")
ResetBaseMismatch = ReasonKind[int, bytes, bytes](
    "RS1", "pipeline", "L1 block {number} is {got}, the reset's base is {expected}"
)
SenderNotBatcher = ReasonKind[bytes, bytes]("BF4", "transaction", "sender {sender} is not the batcher {batcher}")
BlobMalformed = ReasonKind[int, bytes, str]("O7", "blob", "blob {index} ({hash}) does not decode: {error}")
ChallengeExpired = ReasonKind[bytes](
    "AD1", "pipeline", "the challenge of {commitment} expired after its input was used"
)
CommitmentEmpty = ReasonKind[()]("AD3", "commitment", "no bytes")
CommitmentMalformed = ReasonKind[str]("AD5", "commitment", "malformed commitment: {error}")
CommitmentTypeMismatch = ReasonKind[int, int](
    "AD6", "commitment", "commitment has type {kind}, the chain uses type {expected}"
)
CommitmentExpired = ReasonKind[bytes]("AD6", "commitment", "the challenge of {commitment} expired")
ChallengesReorged = ReasonKind[int](
    "AD11", "pipeline", "the known challenges of L1 block {number} belong to another L1 chain"
)
CommitmentInputTooLarge = ReasonKind[int, int]("AD7", "commitment", "input of {size} bytes, the limit is {limit}")
ChallengeMalformed = ReasonKind[int, str]("AD10", "challenge", "malformed log {log}: {error}")
ChallengeStatusUnknown = ReasonKind[int, int](
    "AD10", "challenge", "log {log} has status {status}, which changes nothing"
)
ChallengeDataMissing = ReasonKind[int](
    "AD10", "challenge", "the calldata of the transaction of log {log} has no data that resolve a challenge"
)
ChallengeDataMismatch = ReasonKind[int, bytes]("AD10", "challenge", "the data of log {log} do not match {commitment}")
ChallengeNotTracked = ReasonKind[int, bytes](
    "AD10", "challenge", "log {log} resolves a challenge of {commitment} that is not known"
)
FramesEmpty = ReasonKind[()]("P1", "frames", "no bytes")
FramesVersionUnknown = ReasonKind[int]("P2", "frames", "unknown version {version}")
FramesMissing = ReasonKind[()]("P3", "frames", "no frame after the version byte")
FrameTruncated = ReasonKind[int, int, str]("P5", "frames", "frame {frame} at offset {offset} is cut off in its {field}")
FrameTooLong = ReasonKind[int, int, int]("P6", "frames", "frame {frame} at offset {offset} claims {length} bytes")
FrameEndMarkInvalid = ReasonKind[int, int, int]("P8", "frames", "frame {frame} at offset {offset} has end mark {mark}")
FrameAfterLast = ReasonKind[int, bytes, int](
    "Q3a", "frame", "frame {number} of channel {channel} follows the closing frame {previous}"
)
FrameOutOfOrder = ReasonKind[int, bytes, int](
    "Q3b", "frame", "frame {number} of channel {channel} follows frame {previous}"
)
FrameOfUnclosedChannel = ReasonKind[int, bytes, bytes](
    "Q3c", "frame", "frame {number} of channel {channel} is not the last, yet channel {next} starts"
)
FrameNotFirst = ReasonKind[int, bytes, bytes](
    "Q3d", "frame", "frame {number} of channel {channel} does not continue channel {previous}"
)

declare(vars())
