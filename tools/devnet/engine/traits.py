"""What an engine does otherwise than op-geth, whose answers the embedded engine gives.

Each trait is one behaviour of op-reth v2.3.2, so that a network shows what follows from that one alone."""

from enum import StrEnum


class Trait(StrEnum):
    """A behaviour, by the name that `--like` takes."""

    SKIP = "op-reth-skip"
    """A transaction of the attributes that cannot be executed is left out of the block."""
    LOST_BUILD = "op-reth-lost-build"
    """A block whose transactions cannot even be read, or need more gas than it has, is started with an id; its payload
    is unknown afterwards."""


Traits = frozenset[Trait]
NO_TRAITS: Traits = frozenset()
