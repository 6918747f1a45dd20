"""Decay: scores are multiplied by a factor per slot, which is one block time of the chain [SCR1]."""

BLOCKS_PER_EPOCH = 6
DECAY_TO_ZERO = 0.01
"""The factor over the whole decay time; a value below it counts as 0."""


def slot_seconds(block_time: int) -> float:
    """Return the length of a slot for a block time in seconds; 2 s when that is 0."""
    return float(block_time or 2)


def decay_factor(epochs: int) -> float:
    """Return the factor per slot by which a value decays to a hundredth over `epochs`."""
    return float(DECAY_TO_ZERO ** (1 / (epochs * BLOCKS_PER_EPOCH)))


def epochs_seconds(epochs: int, block_time: int) -> float:
    """Return the length of `epochs` in seconds."""
    return epochs * BLOCKS_PER_EPOCH * slot_seconds(block_time)
