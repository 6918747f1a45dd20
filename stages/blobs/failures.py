"""Why no source has the blobs that derivation waits for, by what the sources answered [BCN17]."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from rollup_node.stages.messages.codes import Code

RETENTION_SECONDS = 4096 * 32 * 12
"""How long beacon nodes must keep blobs: MIN_EPOCHS_FOR_BLOB_SIDECARS_REQUESTS epochs of Ethereum's slots."""

_CUSTODY = ("custod", "data column", "supernode", "columns", "reconstruct")
"""Words of beacon nodes that lack data columns: Lighthouse, Prysm, Teku, Lodestar and Nimbus say it differently."""
_NO_BLOCK = ("block not found", "no block", "beacon block", "block was not found")


class Failed(Enum):
    """What a source did instead of returning the blobs."""

    HAS_NONE = auto()
    """It answered that it does not have them."""
    OTHER_BLOBS = auto()
    """It returned blobs, and none of those wanted."""
    WRONG_BLOBS = auto()
    """What it returned does not have the wanted hashes, or is less than what was asked for."""
    OTHER_CHAIN = auto()
    """Its genesis is after the L1 block."""
    MALFORMED = auto()
    NO_ANSWER = auto()
    """It did not answer, or refused."""


class SourceFailure(NamedTuple):
    """The failure of one source, in words that include its own."""

    failed: Failed
    text: str


def classify(failures: Sequence[SourceFailure], age: float) -> Code:
    """Return the code for the failures of all sources, of which the most telling one decides.

    `age` is that of the L1 block in seconds."""
    codes = [_code(each, age) for each in failures]
    return min(codes, key=_PRIORITY.index)


_PRIORITY = (
    Code.BLOB_CUSTODY,
    Code.BLOB_EXPIRED,
    Code.BLOB_FILTER,
    Code.BLOB_WRONG,
    Code.BLOB_SLOT,
    Code.BLOB_NOT_FOUND,
    Code.BLOB_SHAPE,
    Code.BLOB_UNREACHABLE,
)


def _code(failure: SourceFailure, age: float) -> Code:
    words = failure.text.lower()
    if failure.failed is not Failed.WRONG_BLOBS and any(each in words for each in _CUSTODY):
        return Code.BLOB_CUSTODY
    if failure.failed is Failed.HAS_NONE:
        if age > RETENTION_SECONDS:
            return Code.BLOB_EXPIRED
        return Code.BLOB_SLOT if any(each in words for each in _NO_BLOCK) else Code.BLOB_NOT_FOUND
    return _CODES[failure.failed]


_CODES = {
    Failed.OTHER_BLOBS: Code.BLOB_FILTER,
    Failed.WRONG_BLOBS: Code.BLOB_WRONG,
    Failed.OTHER_CHAIN: Code.BLOB_SLOT,
    Failed.MALFORMED: Code.BLOB_SHAPE,
    Failed.NO_ANSWER: Code.BLOB_UNREACHABLE,
}
