"""Reasons of the batch stages, the attributes queue and the pipeline as a whole."""

from rollup_node.stages.derivation.reasons.reason import Reason, reason


@reason("E6", "pipeline", "the safe head's origin {parent_origin} does not fit the first epoch {first}")
class SafeOriginMismatch(Reason, frozen=True):
    parent_origin: str
    first: str


@reason("BQ7", "batch", "past in the batch queue: {cause}")
class QueuedBatchPast(Reason, frozen=True):
    cause: str


@reason("AQ2", "pipeline", "{error}")
class L1OriginInvalid(Reason, frozen=True):
    error: str


@reason("AQ3", "channel", "an invalid payload was replaced by its deposits: span and channels are flushed")
class PayloadReplacedByDeposits(Reason, frozen=True): ...


@reason("PS3", "pipeline", "{frames} frames, {channels} channels and {batches} batches at the fork")
class StagesReplaced(Reason, frozen=True):
    frames: int
    channels: int
    batches: int
