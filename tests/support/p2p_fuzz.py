"""Damaged inputs for parsers of what peers send."""

import random


def damaged(chance: random.Random, good: bytes) -> bytes:
    """A good input with some bytes changed, cut out, doubled, put in or cut off."""
    data = bytearray(good)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        size = chance.randint(1, 8)
        kind = chance.randrange(9)
        if kind < 2:
            data[at : at + size] = chance.randbytes(size)
        elif kind < 4:
            del data[at : at + size]
        elif kind < 6:
            data[at:at] = data[at : at + size]
        elif kind < 8:
            data[at:at] = chance.randbytes(size)
        else:
            del data[at:]
    return bytes(data)
