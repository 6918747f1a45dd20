"""The stage of `batches` on a test's L1 blocks: the batches it lists, the drops it reports, and how long it waits."""

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.derivation.reasons.channels import BatchTypeUnknown
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.batcher.channels import Compression
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from rollup_node.tools.inspect.batch_summary import BatchSummary
from rollup_node.tools.inspect.listing_stage import BatchListing, ListingConfig, build
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.conformance.kit.chain import GENESIS, STRANGER, L1Blocks, calldata, forks_until, rollup
from tests.conformance.kit.planning import channel, child, plan, span
from tests.support.chains.op_sepolia import SepoliaRecording

ROLES = ("l1", "blobs", "derivation", "engine", "rpc", "compute")


async def _list(
    l1: L1Blocks,
    directory: Path,
    form: RowFormat = RowFormat.JSON,
    missing: int = -1,
    timeout: float | None = None,
    **changes: ForeignFork,
) -> tuple[list[str], list[str]]:
    """Return the lines on standard output and on standard error for all blocks of `l1` but `missing`, which the
    endpoint has lost."""
    buses = in_process_buses(CHANNELS, directory, dict.fromkeys(ROLES, 1))
    paths = [directory / "out", directory / "err"]
    out, err = (os.open(path, os.O_CREAT | os.O_WRONLY) for path in paths)

    def answer(peer: ProcessId, request: L1BlocksRequest) -> None:
        for number in range(request.first, request.first + request.count):
            if number == missing:
                server.send(peer, L1BlockUnavailable(number, last, Problem(None, "", "endpoint: pruned")))
            else:
                server.send(peer, L1BlockResponse(l1[number]))

    server = buses["l1"].serve("l1.blocks", answer)
    first, last = l1.blocks[0].header.number, l1.last.header.number
    config = ListingConfig(rollup(forks_until("holocene"), **changes), first, last, None, form, out, err, timeout)
    stage = build(config, buses["derivation"], Meter("derivation"))
    (task,) = stage.periodic_tasks
    async with running_buses(buses), asyncio.timeout(20):
        with suppress(ExitRequested):
            while True:
                pause = await task.step()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await task.wake.wait()
                task.wake.clear()
        await stage.close()
    os.close(out)
    os.close(err)
    return paths[0].read_text().splitlines(), paths[1].read_text().splitlines()


def test_what_does_not_decode_is_reported_with_its_block_and_rule(tmp_path: Path) -> None:
    l1 = L1Blocks()
    first = l1.add(*channel("A", child(GENESIS).singular, b"\x07")).header.number
    l1.add(b"\x05", calldata(b"\x05", STRANGER))
    l1.add(*channel("B", span(plan(GENESIS, 1))))
    out, err = asyncio.run(_list(l1, tmp_path))
    assert [(line["inclusion"], line["kind"]) for line in map(json.loads, out)] == [
        (first, "singular"),
        (first + 2, "span"),
    ]
    assert err == [
        f"rollup-node: L1 {first}: channel ended early: unknown batch type 7 [BE3]",
        f"rollup-node: L1 {first + 1}: frames ignored: unknown version 5 [P2]",
    ]


def test_the_list_ends_before_the_first_batch_beyond_a_foreign_fork(tmp_path: Path) -> None:
    """A batch that begins before the fork is listed whole [LFT9]."""
    blocks = plan(GENESIS, 7)
    l1 = L1Blocks()
    l1.add(*channel("A", blocks[0].singular))
    l1.add(*channel("B", span(blocks[1:4])))
    left = l1.add(*channel("C", span(blocks[4:6]))).header.number
    l1.add(*channel("D", blocks[6].singular))
    out, err = asyncio.run(_list(l1, tmp_path, foreign_fork=ForeignFork("Somefork", blocks[2].ref.timestamp)))
    assert [json.loads(line)["blocks"] for line in out] == [1, 3]
    (line,) = err
    assert line.startswith(f"rollup-node: a batch in L1 block {left} is of later blocks: block 2 is the last that")
    assert line.endswith("(NETWORK-LEFT)")


def test_csv_has_the_names_of_its_fields_also_without_batches(tmp_path: Path) -> None:
    l1 = L1Blocks()
    l1.add()
    (header,), err = asyncio.run(_list(l1, tmp_path, RowFormat.CSV))
    assert header.startswith("inclusion,inclusion_timestamp,l1_transactions,channel,") and err == []


def test_a_block_that_does_not_come_ends_the_list_at_the_timeout(tmp_path: Path) -> None:
    l1 = L1Blocks()
    l1.add(*channel("A", child(GENESIS).singular))
    last = l1.add().header.number
    out, err = asyncio.run(_list(l1, tmp_path, missing=last, timeout=0.8))
    assert len(out) == 1
    assert err == [f"rollup-node: L1 block {last}: endpoint: pruned"]


def _listed(
    recording: SepoliaRecording, numbers: list[int], batcher: bytes | None = None
) -> list[BatchSummary | Dropped]:
    listing = BatchListing(recording.config, recording.l1_blocks[numbers[0]], batcher)
    result: list[BatchSummary | Dropped] = []
    for number in numbers:
        blobs = listing.open(recording.l1_blocks[number])
        result += listing.batches(recording.contents(blobs))
    return result


def test_all_26_spans(recording: SepoliaRecording) -> None:
    result = _listed(recording, sorted(recording.l1_blocks))
    batches = [item for item in result if isinstance(item, BatchSummary)]
    assert batches == result, "nothing was dropped"
    assert [
        (batch.inclusion, batch.channel and batch.channel.hex(), batch.blocks, batch.transactions, batch.parent.hex())
        for batch in batches
    ] == [
        (span["inclusion"], span["channel"], span["blocks"], span["txs"], span["parent_check"])
        for span in recording.spans
    ]
    assert [batch.digest.hex() for batch in batches] == [span["tx_hashes_sha256"] for span in recording.spans]
    assert {batch.kind for batch in batches} == {"span"}
    assert sum(batch.blocks for batch in batches) == 479
    assert sum(batch.transactions for batch in batches) == 3603
    for batch in batches:
        assert batch.inclusion is not None
        block = recording.l1_blocks[batch.inclusion]
        assert batch.inclusion_time == block.header.timestamp
        assert batch.l1_transactions[-1] in [sent.hash for sent in block.inbox]
    assert sum(batch.channel_bytes or 0 for batch in batches if batch is not batches[0]) > 1_000_000
    genesis = recording.config.genesis.l2_time
    assert [batch.first_timestamp for batch in batches] == [genesis + 2 * span["first_l2"] for span in recording.spans]


def test_another_batcher_has_none(recording: SepoliaRecording) -> None:
    result = _listed(recording, sorted(recording.l1_blocks)[:20], b"\x01" * 20)
    assert result
    assert all(isinstance(item, Dropped) and isinstance(item.reason, SenderNotBatcher) for item in result)


def test_batches_are_listed_whether_valid_or_not() -> None:
    first = child(GENESIS)
    no_parent = child(GENESIS, epoch=GENESIS.l1_origin.number + 3, time=GENESIS.timestamp + 10)
    late = plan(GENESIS, 8)[7:]
    l1 = L1Blocks()
    l1.add(*channel("B", no_parent.singular, b"\x07"))
    l1.add(*channel("A", first.singular, span(late), compression=Compression.BROTLI))
    listing = BatchListing(rollup(forks_until("holocene")), l1.blocks[1])
    result: list[BatchSummary | Dropped] = []
    for block in l1.blocks[1:]:
        assert listing.open(block) == ()
        result += listing.batches(())
    bad, unknown, good, span_found = result
    assert isinstance(bad, BatchSummary) and bad.kind == "singular"
    assert isinstance(unknown, Dropped) and isinstance(unknown.reason, BatchTypeUnknown)
    assert isinstance(good, BatchSummary) and (good.kind, good.transactions) == ("singular", 1)
    assert isinstance(span_found, BatchSummary) and span_found.kind == "span"
    assert span_found.inclusion == l1.blocks[2].header.number
    assert span_found.first_timestamp == late[0].ref.timestamp
