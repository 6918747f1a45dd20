"""How many requests and bytes a node takes from L1 in a day at the tip, and in a sync [CMD14]."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

DAY = 86_400.0
POLLS_PER_BLOCK = 1.25
"""At the tip each poll asks for the whole newest block; with a poll every 12 s one in five finds the block before."""
SMALL_ANSWER = 1500
"""Bytes of a header."""
PROOF_ANSWER = 10_000
"""Bytes of a proof of the unsafe block signer."""
BLOB_BYTES = 131_072
L1, BEACON = "L1", "beacon"


class SampledBlock(NamedTuple):
    """An L1 block: the bytes of its body, and of its receipts, and the blobs that the batcher sent in it.

    The bytes of the receipts are 0 where the bloom shows that none are needed."""

    number: int
    body_bytes: int
    receipts_bytes: int
    blobs: int


class Polling(NamedTuple):
    """What the node asks for besides blocks.

    Seconds between polls of L1's finalized block, and between reads of the unsafe block signer; 0 for none."""

    finality: float
    signer: float


class Row(NamedTuple):
    """The requests and bytes of one method, or route."""

    endpoint: str
    method: str
    requests: float
    bytes: float


class Budget(NamedTuple):
    """What so many L1 blocks take, by method."""

    blocks: int
    rows: tuple[Row, ...]

    def total(self, endpoint: str) -> Row:
        """Return the sum over the methods of an endpoint."""
        rows = [row for row in self.rows if row.endpoint == endpoint]
        return Row(endpoint, "all", sum(row.requests for row in rows), sum(row.bytes for row in rows))


def day_at_the_tip(sample: Sequence[SampledBlock], block_seconds: float, polling: Polling) -> Budget:
    """Return a day of a node that follows the tip."""
    blocks = round(DAY / block_seconds)
    rows = [Row(L1, "eth_getBlockByNumber", blocks * POLLS_PER_BLOCK, _body(sample) * blocks * POLLS_PER_BLOCK)]
    if polling.finality > 0:
        # The labels safe and finalized, and the finalized block by its number.
        polls = 3 * DAY / polling.finality
        rows.append(Row(L1, "eth_getBlockByNumber (labels)", polls, polls * SMALL_ANSWER))
        rows.append(Row(L1, "eth_chainId", polls / 3, polls / 3 * 50))
    if polling.signer > 0:
        reads = DAY / polling.signer
        rows.append(Row(L1, "eth_getProof", reads, reads * PROOF_ANSWER))
    return Budget(blocks, (*rows, *_needed(sample, blocks)))


def sync(sample: Sequence[SampledBlock], blocks: int) -> Budget:
    """Return the catch-up over so many L1 blocks."""
    return Budget(blocks, (Row(L1, "eth_getBlockByNumber", blocks, _body(sample) * blocks), *_needed(sample, blocks)))


def hours_at(budget: Budget, requests_per_second: float) -> float:
    """How long the L1 requests take at that rate."""
    return budget.total(L1).requests / requests_per_second / 3600


def _body(sample: Sequence[SampledBlock]) -> float:
    return fmean(block.body_bytes for block in sample)


def _needed(sample: Sequence[SampledBlock], blocks: int) -> list[Row]:
    """Return what only some blocks need: receipts, and blobs with the commitments of their beacon block."""
    with_receipts = fmean(block.receipts_bytes > 0 for block in sample)
    with_blobs = fmean(block.blobs > 0 for block in sample)
    receipts = fmean(block.receipts_bytes for block in sample)
    blobs = fmean(block.blobs for block in sample)
    result = [Row(L1, "eth_getBlockReceipts", blocks * with_receipts, blocks * receipts)]
    result.append(Row(BEACON, "blobs", blocks * with_blobs, blocks * blobs * BLOB_BYTES))
    result.append(Row(BEACON, "block", blocks * with_blobs, 0.0))
    return result


def spread(first: int, last: int, count: int) -> list[int]:
    """At most `count` numbers over a range, evenly, with its last."""
    length = last - first + 1
    if length <= count:
        return list(range(first, last + 1))
    return [last - index * length // count for index in range(count)][::-1]
