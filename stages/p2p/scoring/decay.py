"""The clock of all scores: values fall by a factor per slot, one block time of the chain (node-behaviour 13.8)."""

BLOCKS_PER_EPOCH = 6
TO_ZERO = 0.01
"""What a value is multiplied with over its decay time, and below what it is taken as zero."""


def slot_seconds(block_time: int) -> float:
    """The length of a slot for a block time in seconds."""
    return float(block_time or 2)


def factor(epochs: int) -> float:
    """The factor per slot by which a value falls to a hundredth in so many epochs of six slots."""
    return float(TO_ZERO ** (1 / (epochs * BLOCKS_PER_EPOCH)))


def epochs_seconds(epochs: int, block_time: int) -> float:
    """So many epochs in seconds."""
    return epochs * BLOCKS_PER_EPOCH * slot_seconds(block_time)
