"""The clock of all scores: values fall by a decay_factor per slot, one block time of the chain (node-behaviour 13.8)."""

BLOCKS_PER_EPOCH = 6
DECAY_TO_ZERO = 0.01
"""What a value is multiplied with over its decay time, and below what it is taken as zero."""


def slot_seconds(block_time: int) -> float:
    """The length of a slot for a block time in seconds."""
    return float(block_time or 2)


def decay_factor(epochs: int) -> float:
    """The decay_factor per slot by which a value falls to a hundredth in so many epochs of six slots."""
    return float(DECAY_TO_ZERO ** (1 / (epochs * BLOCKS_PER_EPOCH)))


def epochs_seconds(epochs: int, block_time: int) -> float:
    """So many epochs in seconds."""
    return epochs * BLOCKS_PER_EPOCH * slot_seconds(block_time)
