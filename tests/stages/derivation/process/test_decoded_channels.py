"""The cache of decoded channels is bounded in bytes."""

from rollup_node.stages.derivation.codec.batches import RejectedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.packed import PackedBytes, PackedTransactions, TransactionChunk
from rollup_node.stages.derivation.process.decoded_channels import DecodedChannelCache
from rollup_node.stages.derivation.reasons.reading import SpanTransactionInvalid
from rollup_node.stages.derivation.tasks import DecodedChannel

EMPTY = DecodedChannel((), None)


def test_the_least_recently_used_results_go_first() -> None:
    cache = DecodedChannelCache(3000)
    for number in range(8):
        cache.put(b"%d" % number, EMPTY)
        cache.get(b"0")
    assert b"0" in cache and b"7" in cache
    assert b"1" not in cache
    assert cache.get(b"1") is None
    assert cache.bytes <= 3000


def test_transactions_count() -> None:
    batch = SingularBatch(b"", 0, b"", 0, (bytes(967),))
    cache = DecodedChannelCache(10_000)
    cache.put(b"a", DecodedChannel((batch, RejectedBatch(SpanTransactionInvalid(0, ""))), None))
    assert cache.bytes == 500 + 2 * 700 + 41 + 967
    cache.put(b"a", EMPTY)
    assert cache.bytes == 500 + 2 * 700 + 41 + 967


def test_packed_batches_count() -> None:
    chunks = (TransactionChunk(9, 9, b"a", False, bytes(3000)),)
    span = SpanBatch(b"", b"", 0, 2, 1, 0, 0, bytes(70), PackedBytes(9, (bytes(80),)), PackedTransactions(chunks, 0, 9))
    cache = DecodedChannelCache(10_000)
    cache.put(b"a", DecodedChannel((span,), None))
    assert cache.bytes == 500 + 700 + 70 + 250 + 80 + 250 + 3000


def test_the_newest_result_stays_whatever_its_size() -> None:
    cache = DecodedChannelCache(100)
    cache.put(b"a", EMPTY)
    cache.put(b"b", EMPTY)
    assert b"b" in cache and b"a" not in cache
