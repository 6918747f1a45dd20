"""The stage of `batches` on a test's L1 blocks: the batches it lists, the drops it reports, and how long it waits."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.tools.api.in_process import running_buses
from rollup_node.tools.batcher.channels import Compression
from rollup_node.tools.inspect.listing_stage import BatchListing, ListingConfig, build
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.conformance.kit.chain import GENESIS, STRANGER, L1Blocks, calldata, forks_until, rollup
from tests.conformance.kit.planning import channel, child, plan, span
from tests.support.chains.op_sepolia import SepoliaRecording
from tests.support.processes.stage_runner import run_to_exit
from tests.tools.conftest import NewBuses

Listed = Callable[..., Awaitable[tuple[list[str], list[str]]]]


@pytest.fixture
def listed(new_buses: NewBuses, tmp_path: Path) -> Listed:
    """List all blocks of an L1; the lines on standard output and error."""

    async def run(l1: L1Blocks, form: RowFormat = RowFormat.JSON, **changes: Any) -> tuple[list[str], list[str]]:
        buses = new_buses(tmp_path)

        def answer(peer: ProcessId, request: L1BlocksRequest) -> None:
            for number in range(request.first, request.first + request.count):
                server.send(peer, L1BlockResponse(l1[number]))

        server = buses["l1"].serve("l1.blocks", answer)
        first, last = l1.blocks[0].header.number, l1.last.header.number
        with open(tmp_path / "out", "wb") as out, open(tmp_path / "err", "wb") as err:
            chain, ends = rollup(forks_until("holocene"), **changes), (out.fileno(), err.fileno())
            config = ListingConfig(chain, first, last, None, form, *ends)
            stage = build(config, buses["derivation"], Meter("derivation"))
            async with running_buses(buses):
                await run_to_exit(stage)
                await stage.close()
        return (tmp_path / "out").read_text().splitlines(), (tmp_path / "err").read_text().splitlines()

    return run


async def test_batches_are_listed_whether_valid_or_not_and_drops_are_reported(listed: Listed) -> None:
    """A drop with its block and rule."""
    no_parent = child(GENESIS, epoch=GENESIS.l1_origin.number + 3, time=GENESIS.timestamp + 10)
    late = plan(GENESIS, 8)[7:]
    l1 = L1Blocks()
    first = l1.add(*channel("A", no_parent.singular, b"\x07")).header.number
    l1.add(b"\x05", calldata(b"\x05", STRANGER))
    l1.add(*channel("B", child(GENESIS).singular, span(late), compression=Compression.BROTLI))
    out, err = await listed(l1)
    batches = [json.loads(line) for line in out]
    kinds = [(batch["inclusion"], batch["kind"]) for batch in batches]
    assert kinds == [(first, "singular"), (first + 2, "singular"), (first + 2, "span")]
    assert batches[1]["transactions"] == 1
    assert batches[2]["first_timestamp"] == late[0].ref.timestamp
    assert err == [
        f"rollup-node: L1 {first}: channel ended early: unknown batch type 7 [BE3]",
        f"rollup-node: L1 {first + 1}: frames ignored: unknown version 5 [P2]",
    ]


async def test_the_list_ends_before_the_first_batch_beyond_a_foreign_fork(listed: Listed) -> None:
    """A batch that begins before the fork is listed whole [LFT9]."""
    blocks = plan(GENESIS, 7)
    l1 = L1Blocks()
    l1.add(*channel("A", blocks[0].singular))
    l1.add(*channel("B", span(blocks[1:4])))
    left = l1.add(*channel("C", span(blocks[4:6]))).header.number
    l1.add(*channel("D", blocks[6].singular))
    out, err = await listed(l1, foreign_fork=ForeignFork("Somefork", blocks[2].ref.timestamp))
    assert [json.loads(line)["blocks"] for line in out] == [1, 3]
    (line,) = err
    assert line.startswith(f"rollup-node: a batch in L1 block {left} is of later blocks: block 2 is the last that")
    assert line.endswith("(NETWORK-LEFT)")


async def test_csv_has_the_names_of_its_fields_also_without_batches(listed: Listed) -> None:
    l1 = L1Blocks()
    l1.add()
    (header,), err = await listed(l1, RowFormat.CSV)
    assert header.startswith("inclusion,inclusion_timestamp,l1_transactions,channel,") and err == []


def test_another_batcher_has_none(recording: SepoliaRecording) -> None:
    blocks = [recording.l1_blocks[number] for number in sorted(recording.l1_blocks)[:20]]
    listing = BatchListing(recording.config, blocks[0], b"\x01" * 20)
    result = [item for block in blocks for item in listing.batches(recording.contents(listing.open(block)))]
    assert result
    assert all(isinstance(item, Dropped) and item.reason.kind is SenderNotBatcher for item in result)
