"""Random mutations of bytes from a seeded source, for use without a coverage-guided fuzzer."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal

NUMBERS = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xb7", b"\xbb\xff\xff\xff\xff", b"\xc0", b"\xf7", b"\xff" * 8)
MAX_CHANGES = 4
_VALUE = re.compile(rb'"[^"]*"|-?\d+|true|false|null|\[[^][]*\]|\{[^{}]*\}')
_DIGIT = re.compile(rb"(?<=[0-9a-fx])[0-9a-f]")
_WIDTHS = (1, 1, 2, 4, 8)
_ORDERS: tuple[Literal["big", "little"], ...] = ("big", "little")

Mutation = Callable[[Random, bytearray, Sequence[bytes]], None]


def mutated(
    chance: Random,
    data: bytes,
    others: Sequence[bytes] = (),
    tokens: Sequence[bytes] = (),
    most: int = MAX_CHANGES,
) -> bytes:
    """Return the bytes after one to `most` mutations.

    Some of them splice in pieces of `others`, or put one of `tokens`, which are values of a text format, in the
    place of another value."""
    changed = bytearray(data)
    if tokens and chance.random() < 0.7:
        for _ in range(chance.randint(1, most)):
            chance.choice(TEXT_MUTATIONS)(chance, changed, tokens)
        return bytes(changed)
    for _ in range(chance.randint(1, most)):
        chance.choice(MUTATIONS)(chance, changed, others)
    return bytes(changed)


def truncated(chance: Random, data: bytes) -> bytes:
    """Return a random prefix of the bytes."""
    return data[: chance.randrange(len(data) + 1)]


def flipped(chance: Random, data: bytes, bits: int = 1) -> bytes:
    """Return the bytes with `bits` bit flips."""
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


def _change_length(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Make a number a little larger or smaller, or half or twice as large, as damaged lengths are."""
    width, order = chance.choice(_WIDTHS), chance.choice(_ORDERS)
    at = chance.randrange(len(data) + 1)
    old = int.from_bytes(data[at : at + width], order)
    new = (old + 1, old - 1, 2 * old, old // 2, old + width, len(data))[chance.randrange(6)]
    data[at : at + width] = (new % (1 << 8 * width)).to_bytes(width, order)


def _splice(chance: Random, data: bytearray, others: Sequence[bytes]) -> None:
    if others:
        other = chance.choice(others)
        start, at = chance.randrange(len(other) + 1), chance.randrange(len(data) + 1)
        data[at:] = other[start:]


def _put_token(chance: Random, data: bytearray, tokens: Sequence[bytes]) -> None:
    result = _VALUE.search(data, chance.randrange(len(data) + 1))
    if result is not None:
        data[result.start() : result.end()] = chance.choice(tokens)


def _copy_value(chance: Random, data: bytearray, tokens: Sequence[bytes]) -> None:
    result = _VALUE.search(data, chance.randrange(len(data) + 1))
    other = _VALUE.search(data, chance.randrange(len(data) + 1))
    if result is not None and other is not None:
        data[result.start() : result.end()] = other[0]


def _change_digit(chance: Random, data: bytearray, tokens: Sequence[bytes]) -> None:
    result = _DIGIT.search(data, chance.randrange(len(data) + 1))
    if result is not None:
        data[result.start()] = chance.choice(b"0123456789abcdef")


def _remove_digits(chance: Random, data: bytearray, tokens: Sequence[bytes]) -> None:
    result = _DIGIT.search(data, chance.randrange(len(data) + 1))
    if result is not None:
        del data[result.start() : result.start() + chance.choice((1, 2, 2, 4, 64))]


MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _flip, _replace, _cut, _remove, _insert, _repeat, _number, _change_length, _splice),
)
TEXT_MUTATIONS: tuple[Mutation, ...] = (_put_token, _copy_value, _change_digit, _remove_digits)
"""Those that mostly leave a text's syntax whole; their third argument are the tokens."""
