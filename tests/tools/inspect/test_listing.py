"""All batches of the recorded L1 range, as an independent decoder found them."""

import csv
import json

from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reading import BatchTypeUnknown
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.tools.batcher.channels import Compression
from rollup_node.tools.inspect.batch_summary import BatchSummary
from rollup_node.tools.inspect.listing import (
    BatchListing,
    Column,
    RowFormat,
    RowFormatter,
    RowLayout,
    shown_range,
    shown_time,
)
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


LAYOUT = RowLayout(
    (Column("NUMBER", 6, right=True), Column("NAME", 4)),
    lambda values: (str(values["number"]), values["name"]),
    lambda values: f"number {values['number']}",
    ("number", "name", "parts", "absent"),
    lambda values: values | {"parts": ["a", "b"]},
)
ROWS = ({"number": 7, "name": "x"}, {"number": 123, "name": 'y,"z\n'})


def written(form: RowFormat) -> str:
    rows = RowFormatter(form, LAYOUT)
    return "".join(rows.row(values) for values in ROWS) + rows.end()


def test_each_form() -> None:
    assert written(RowFormat.TEXT) == "number 7\nnumber 123\n"
    assert written(RowFormat.TABLE).splitlines()[:2] == ["NUMBER  NAME", "     7  x"]
    assert [json.loads(line) for line in written(RowFormat.JSON).splitlines()] == list(ROWS)
    header, *records = csv.reader(written(RowFormat.CSV).splitlines(keepends=True))
    assert header == list(LAYOUT.fields)
    assert records == [["7", "x", "a b", ""], ["123", 'y,"z\n', "a b", ""]]


def test_only_csv_has_a_header_without_rows() -> None:
    ends = {form: RowFormatter(form, LAYOUT).end() for form in RowFormat}
    assert [form for form, end in ends.items() if end] == [RowFormat.CSV]
    assert ends[RowFormat.CSV] == "number,name,parts,absent\n"


def test_times_and_ranges_for_people() -> None:
    assert shown_time(1724784082) == "2024-08-27T18:41:22Z"
    assert shown_time(1724784082, " ") == "2024-08-27 18:41:22"
    assert shown_time((1 << 64) - 1) == f"{(1 << 64) - 1} s"
    assert (shown_range(7, 1), shown_range(7, 3)) == ("7", "7-9")
