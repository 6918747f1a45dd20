"""Reasons of L1 traversal, L1 retrieval, Alt-DA and frames."""

from rollup_node.stages.derivation.reasons.reason import ReasonKind

L1ParentMismatch = ReasonKind[int, bytes, bytes](
    "l1_parent_mismatch", "T3", "pipeline", "L1 block {number} has parent {parent}, expected {expected}"
)
ConfigUpdateMalformed = ReasonKind[int, str]("config_update_malformed", "T5", "config update", "log {log}: {error}")
BlobsNotFound = ReasonKind[int]("blobs_not_found", "T8", "pipeline", "no source has the blobs of L1 block {number}")
ResetBaseMismatch = ReasonKind[int, bytes, bytes](
    "reset_base_mismatch", "RS1", "pipeline", "L1 block {number} is {got}, the reset's base is {expected}"
)
SenderNotBatcher = ReasonKind[bytes, bytes](
    "sender_not_batcher", "BF4", "transaction", "sender {sender} is not the batcher {batcher}"
)
BlobMalformed = ReasonKind[int, bytes, str](
    "blob_malformed", "O7", "blob", "blob {index} ({hash}) does not decode: {error}"
)
ChallengeExpired = ReasonKind[bytes](
    "challenge_expired", "AD1", "pipeline", "the challenge of {commitment} expired after its input was used"
)
CommitmentEmpty = ReasonKind[()]("commitment_empty", "AD3", "commitment", "no bytes")
CommitmentMalformed = ReasonKind[str]("commitment_malformed", "AD5", "commitment", "malformed commitment: {error}")
CommitmentTypeMismatch = ReasonKind[int, int](
    "commitment_type_mismatch", "AD6", "commitment", "commitment has type {kind}, the chain uses type {expected}"
)
CommitmentExpired = ReasonKind[bytes](
    "commitment_expired", "AD6", "commitment", "the challenge of {commitment} expired"
)
ChallengesReorged = ReasonKind[int](
    "challenges_reorged", "AD11", "pipeline", "the known challenges of L1 block {number} belong to another L1 chain"
)
CommitmentInputTooLarge = ReasonKind[int, int](
    "commitment_input_too_large", "AD7", "commitment", "input of {size} bytes, the limit is {limit}"
)
ChallengeMalformed = ReasonKind[int, str]("challenge_malformed", "AD10", "challenge", "malformed log {log}: {error}")
ChallengeStatusUnknown = ReasonKind[int, int](
    "challenge_status_unknown", "AD10", "challenge", "log {log} has status {status}, which changes nothing"
)
ChallengeDataMissing = ReasonKind[int](
    "challenge_data_missing",
    "AD10",
    "challenge",
    "the calldata of the transaction of log {log} has no data that resolve a challenge",
)
ChallengeDataMismatch = ReasonKind[int, bytes](
    "challenge_data_mismatch", "AD10", "challenge", "the data of log {log} do not match {commitment}"
)
ChallengeNotTracked = ReasonKind[int, bytes](
    "challenge_not_tracked", "AD10", "challenge", "log {log} resolves a challenge of {commitment} that is not known"
)
FramesEmpty = ReasonKind[()]("frames_empty", "P1", "frames", "no bytes")
FramesVersionUnknown = ReasonKind[int]("frames_version_unknown", "P2", "frames", "unknown version {version}")
FramesMissing = ReasonKind[()]("frames_missing", "P3", "frames", "no frame after the version byte")
FrameTruncated = ReasonKind[int, int, str](
    "frame_truncated", "P5", "frames", "frame {frame} at offset {offset} is cut off in its {field}"
)
FrameTooLong = ReasonKind[int, int, int](
    "frame_too_long", "P6", "frames", "frame {frame} at offset {offset} claims {length} bytes"
)
FrameEndMarkInvalid = ReasonKind[int, int, int](
    "frame_end_mark_invalid", "P8", "frames", "frame {frame} at offset {offset} has end mark {mark}"
)
FrameAfterLast = ReasonKind[int, bytes, int](
    "frame_after_last", "Q3a", "frame", "frame {number} of channel {channel} follows the closing frame {previous}"
)
FrameOutOfOrder = ReasonKind[int, bytes, int](
    "frame_out_of_order", "Q3b", "frame", "frame {number} of channel {channel} follows frame {previous}"
)
FrameOfUnclosedChannel = ReasonKind[int, bytes, bytes](
    "frame_of_unclosed_channel",
    "Q3c",
    "frame",
    "frame {number} of channel {channel} is not the last, yet channel {next} starts",
)
FrameNotFirst = ReasonKind[int, bytes, bytes](
    "frame_not_first", "Q3d", "frame", "frame {number} of channel {channel} does not continue channel {previous}"
)
