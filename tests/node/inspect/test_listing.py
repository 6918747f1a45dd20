"""All batches of the recorded L1 range, as an independent decoder found them."""

from typing import Any

from rollup_node.node.inspect.batch_summary import BatchSummary
from rollup_node.node.inspect.listing import BatchListing
from rollup_node.stages.derivation.reasons.reason import Dropped


def _listed(recording: Any, numbers: list[int], batcher: bytes | None = None) -> list[BatchSummary | Dropped]:
    listing = BatchListing(recording.config, recording.l1_blocks[numbers[0]], batcher)
    found: list[BatchSummary | Dropped] = []
    for number in numbers:
        blobs = listing.open(recording.l1_blocks[number])
        found += listing.batches(recording.contents(blobs))
    return found


def test_all_26_spans(recording: Any) -> None:
    found = _listed(recording, sorted(recording.l1_blocks))
    batches = [each for each in found if isinstance(each, BatchSummary)]
    assert batches == found, "nothing was dropped"
    assert [
        (each.inclusion, each.channel.hex(), each.blocks, each.transactions, each.parent.hex(), each.digest.hex())
        for each in batches
    ] == [
        (
            each["inclusion"],
            each["channel"],
            each["blocks"],
            each["txs"],
            each["parent_check"],
            each["tx_hashes_sha256"],
        )
        for each in recording.expected["spans"]
    ]
    assert {each.kind for each in batches} == {"span"}
    assert sum(each.blocks for each in batches) == 479
    assert sum(each.transactions for each in batches) == 3603
    genesis = recording.config.genesis.l2_time
    assert [each.first_timestamp for each in batches] == [
        genesis + 2 * each["first_l2"] for each in recording.expected["spans"]
    ]


def test_another_batcher_has_none(recording: Any) -> None:
    found = _listed(recording, sorted(recording.l1_blocks)[:20], b"\x01" * 20)
    assert found
    assert all(isinstance(each, Dropped) and each.reason.rule == "BF4" for each in found)


def test_invalid_batches_are_listed_too(made: Any) -> None:
    world = made.World(made.forks_to("holocene"))
    world.put_batches(0, world.singular(5, 3, parent=bytes(32)), b"\x07", channel=b"B" * 16)
    world.put_batches(1, world.singular(1, 0, made.USER), world.span(1, 7))
    listing = BatchListing(world.config, world.l1(0))
    found: list[Any] = []
    for number in (0, 1):
        assert listing.open(world.l1(number)) == ()
        found += listing.batches(())
    assert [getattr(each, "kind", str(getattr(each, "label", ""))) for each in found] == [
        "singular",
        "BE3 batch_type_unknown",
        "singular",
        "span",
    ]
    assert found[2].transactions == 1
    assert found[3].inclusion == 1
