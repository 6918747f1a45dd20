"""Random mutations of bytes from a seeded source, for use without a coverage-guided fuzzer."""

from collections.abc import Callable, Sequence
from random import Random

NUMBERS = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xb7", b"\xbb\xff\xff\xff\xff", b"\xc0", b"\xf7", b"\xff" * 8)
MAX_CHANGES = 4

Mutation = Callable[[Random, bytearray, Sequence[bytes]], None]


def mutated(chance: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The bytes after one to four mutations; some of them splice in pieces of `others`."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, MAX_CHANGES)):
        chance.choice(MUTATIONS)(chance, changed, others)
    return bytes(changed)


def truncated(chance: Random, data: bytes) -> bytes:
    """A random prefix of the bytes."""
    return data[: chance.randrange(len(data) + 1)]


def flipped(chance: Random, data: bytes, bits: int = 1) -> bytes:
    """The bytes with `bits` bit flips."""
    changed = bytearray(data)
    for _ in range(bits):
        _flip(chance, changed, ())
    return bytes(changed)


def _flip(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _replace(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.randrange(256)


def _cut(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _remove(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    start = chance.randrange(len(data) + 1)
    del data[start : start + chance.randint(1, 40)]


def _insert(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.randbytes(chance.randint(1, 20))


def _repeat(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    start = chance.randrange(len(data) + 1)
    piece = data[start : start + chance.randint(1, 200)]
    data[start:start] = piece * chance.randint(1, 3)


def _number(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    number = chance.choice(NUMBERS)
    at = chance.randrange(len(data) + 1)
    data[at : at + len(number)] = number


def _splice(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    if others:
        other = chance.choice(others)
        start, at = chance.randrange(len(other) + 1), chance.randrange(len(data) + 1)
        data[at:] = other[start:]


MUTATIONS: tuple[Mutation, ...] = (_flip, _flip, _replace, _cut, _remove, _insert, _repeat, _number, _splice)
