"""All batches of the recorded L1 range, as an independent decoder found them."""

from rollup_node.stages.derivation.reasons.channels import BatchTypeUnknown
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.tools.batcher.channels import Compression
from rollup_node.tools.inspect.batch_summary import BatchSummary
from rollup_node.tools.inspect.listing import BatchListing
from tests.conformance.kit.chain import GENESIS, L1Blocks, forks_until, rollup
from tests.conformance.kit.planning import channel, child, plan, span
from tests.support.chains.op_sepolia import SepoliaRecording


def _listed(
    recording: SepoliaRecording, numbers: list[int], batcher: bytes | None = None
) -> list[BatchSummary | Dropped]:
    listing = BatchListing(recording.config, recording.l1_blocks[numbers[0]], batcher)
    found: list[BatchSummary | Dropped] = []
    for number in numbers:
        blobs = listing.open(recording.l1_blocks[number])
        found += listing.batches(recording.contents(blobs))
    return found


def test_all_26_spans(recording: SepoliaRecording) -> None:
    found = _listed(recording, sorted(recording.l1_blocks))
    batches = [each for each in found if isinstance(each, BatchSummary)]
    assert batches == found, "nothing was dropped"
    assert [
        (each.inclusion, each.channel and each.channel.hex(), each.blocks, each.transactions, each.parent.hex())
        for each in batches
    ] == [
        (each["inclusion"], each["channel"], each["blocks"], each["txs"], each["parent_check"])
        for each in recording.spans
    ]
    assert [each.digest.hex() for each in batches] == [each["tx_hashes_sha256"] for each in recording.spans]
    assert {each.kind for each in batches} == {"span"}
    assert sum(each.blocks for each in batches) == 479
    assert sum(each.transactions for each in batches) == 3603
    for each in batches:
        assert each.inclusion is not None
        block = recording.l1_blocks[each.inclusion]
        assert each.inclusion_time == block.header.timestamp
        assert each.l1_transactions[-1] in [sent.hash for sent in block.inbox]
    assert sum(each.channel_bytes or 0 for each in batches if each is not batches[0]) > 1_000_000
    genesis = recording.config.genesis.l2_time
    assert [each.first_timestamp for each in batches] == [genesis + 2 * each["first_l2"] for each in recording.spans]


def test_another_batcher_has_none(recording: SepoliaRecording) -> None:
    found = _listed(recording, sorted(recording.l1_blocks)[:20], b"\x01" * 20)
    assert found
    assert all(isinstance(each, Dropped) and isinstance(each.reason, SenderNotBatcher) for each in found)


def test_batches_are_listed_whether_valid_or_not() -> None:
    first = child(GENESIS)
    no_parent = child(GENESIS, epoch=GENESIS.l1_origin.number + 3, time=GENESIS.timestamp + 10)
    late = plan(GENESIS, 8)[7:]
    l1 = L1Blocks()
    l1.add(*channel("B", no_parent.singular, b"\x07"))
    l1.add(*channel("A", first.singular, span(late), compression=Compression.BROTLI))
    listing = BatchListing(rollup(forks_until("holocene")), l1.blocks[1])
    found: list[BatchSummary | Dropped] = []
    for block in l1.blocks[1:]:
        assert listing.open(block) == ()
        found += listing.batches(())
    bad, unknown, good, span_found = found
    assert isinstance(bad, BatchSummary) and bad.kind == "singular"
    assert isinstance(unknown, Dropped) and isinstance(unknown.reason, BatchTypeUnknown)
    assert isinstance(good, BatchSummary) and (good.kind, good.transactions) == ("singular", 1)
    assert isinstance(span_found, BatchSummary) and span_found.kind == "span"
    assert span_found.inclusion == l1.blocks[2].header.number
    assert span_found.first_timestamp == late[0].ref.timestamp
