"""Damaged inputs for parsers of what peers send."""

import random


def damaged(chance: random.Random, good: bytes) -> bytes:
    """Return a valid input with some bytes changed, removed, doubled, inserted or truncated."""
    data = bytearray(good)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        size = chance.randint(1, 8)
        change = chance.randrange(9)
        if change < 2:
            data[at : at + size] = chance.randbytes(size)
        elif change < 4:
            del data[at : at + size]
        elif change < 6:
            data[at:at] = data[at : at + size]
        elif change < 8:
            data[at:at] = chance.randbytes(size)
        else:
            del data[at:]
    return bytes(data)
