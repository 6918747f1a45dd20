"""What a fuzz target is."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

Seed = Callable[[Random], bytes]


class FuzzTarget(NamedTuple):
    """A parser under test.

    `run` accepts any bytes and raises one of `errors`, which are the parser's documented ones, or else shows a bug;
    what it returns is a short name of the outcome, or nothing. `seed` makes a valid input, `tokens` are inserted by
    mutations. `sender` is who may send such bytes to a node."""

    sender: str
    run: Callable[[bytes], object]
    seed: Seed
    errors: tuple[type[Exception], ...] = ()
    tokens: tuple[bytes, ...] = ()


def one_of(inputs: Sequence[bytes]) -> Seed:
    """Return a generator that draws one of these inputs."""
    return lambda chance: chance.choice(inputs)


DEPTH = 1500
"""Nesting at which decoders give up."""

JSON_TOKENS = (
    *(b"null", b"true", b"false", b"0", b"-1", b"1e999", b"1.5", b"18446744073709551616", b'""', b'"0x"', b'"0x0"'),
    *(
        b"[]",
        b"{}",
        b"[[]]",
        b'"\\ud800"',
        b'"\xff"',
        b'"0x' + b"ff" * 33 + b'"',
        b"9" * 400,
        b"[" * DEPTH,
        b'{"a":' * DEPTH,
    ),
)
"""Values that take the place of others in JSON texts."""
