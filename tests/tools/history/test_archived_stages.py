"""L1 blocks from an archive: read before any endpoint, verified as theirs are, and fetched again where damaged."""

import asyncio
import gzip
import shutil
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process.stage import NO_ENDPOINT, BlobsStage
from rollup_node.stages.blobs.tasks import VerifyBlobs, run
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.head_tracker import NewestBlock
from rollup_node.stages.l1.prefetch_window import Fetch
from rollup_node.stages.l1.process.client import L1Endpoint
from rollup_node.stages.messages.l1 import L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlobRef, L1Block
from rollup_node.tools.history.archive import BlobArchive, BlockArchive, blob_name, block_name, number_name
from rollup_node.tools.history.archived_stages import (
    ArchivedBlockFetcher,
    ArchivedConfig,
    ArchivedRefsReader,
    ArchiveFolder,
    build_blobs,
)
from tests.stages.blobs.process.test_stage import BlobsClient, KnownBlobs, running_blobs
from tests.stages.l1.process.test_block_fetcher import InlineWorkers
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.fake_beacon import FakeBeacon
from tests.support.servers.http_listener import Methods, json_rpc_app
from tests.support.servers.l1_endpoints import ROLLUP, served
from tests.support.servers.small_blobs import small_blobs
from tests.support.timing.conditions import until

CHAIN = FakeL1Chain(8)
LAST = 5


@pytest.fixture(name="small_blobs")
def small_blobs_fixture() -> KnownBlobs:
    """Return three blobs with their evidence."""
    return small_blobs()


@pytest.fixture
def lines() -> list[Record]:
    result: list[Record] = []
    log.configure("l1", Level.WARN, result.append)
    return result


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    """Return an archive with blocks 2 and 3; block 6 is above the last that is kept."""
    assert await _fetch(tmp_path, 2, 3, 6) == ([CHAIN.block(number) for number in (2, 3, 6)], ["0x2", "0x3", "0x6"])
    return tmp_path


async def _fetch(
    folder: Path, *numbers: int, generation: int = 0, refs: list[L1RefsResponse] | None = None
) -> tuple[list[L1Block | None], list[str]]:
    """Return the blocks of these numbers, or the responses to requests for their references into `refs`, and what the
    endpoint was asked for."""
    asked: list[str] = []
    value: list[L1Block | None] = []

    def by_number(number: str, full: bool) -> Any:
        asked.append(number)
        return CHAIN.block_json(int(number, 16))

    methods: Methods = {"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": by_number}
    async with served(json_rpc_app(methods)) as (config, endpoints, _):
        archive, workers = BlockArchive(str(folder), ROLLUP.l1_chain_id, LAST), cast(Any, InlineWorkers())
        done = asyncio.Event()
        newest = NewestBlock[L1Endpoint](12.0, lambda number: False)
        fetcher = ArchivedBlockFetcher(archive, config, endpoints, newest, workers, done.set)
        reader = ArchivedRefsReader(archive, config, endpoints, done.set)
        for number in numbers:
            if refs is None:
                fetcher.start([Fetch(number, generation)])
                await asyncio.wait_for(done.wait(), 10)
                value.extend(None if result.blocks is None else result.blocks[0] for result in fetcher.take_results())
                done.clear()
            else:
                reader.request(ProcessId(1, 1), L1RefsRequest(number, 1))
                await reader.step(lambda client, response: refs.append(response))
    return value, asked


async def test_what_the_archive_has_is_not_asked_for(archive: Path, lines: list[Record]) -> None:
    assert await _fetch(archive, 2, 3) == ([CHAIN.block(2), CHAIN.block(3)], [])
    assert await _fetch(archive, 6, 4) == ([CHAIN.block(6), CHAIN.block(4)], ["0x6", "0x4"])
    assert await _fetch(archive, 4) == ([CHAIN.block(4)], [])
    refs: list[L1RefsResponse] = []
    assert (await _fetch(archive, 3, 7, refs=refs))[1] == ["0x7"]
    assert refs == [L1RefsResponse(number, (CHAIN.ref(number),), None) for number in (3, 7)] and lines == []


async def test_after_a_reorg_the_endpoints_say_what_is_canonical(archive: Path) -> None:
    assert await _fetch(archive, 2, generation=1) == ([CHAIN.block(2)], ["0x2"])


async def test_what_is_damaged_is_fetched_again_and_replaced(archive: Path, lines: list[Record]) -> None:
    entry = archive / block_name(5, CHAIN.hash(2))
    other = archive / block_name(5, CHAIN.hash(3))
    number = archive / number_name(5, 2)
    good = entry.read_bytes()
    for path, data in (
        (entry, good[:-3]),
        (entry, other.read_bytes()),
        (number, b"0x12"),
        (number, to_hex(CHAIN.hash(3)).encode()),
    ):
        lines.clear()
        path.write_bytes(data)
        assert await _fetch(archive, 2) == ([CHAIN.block(2)], ["0x2"])
        assert [line.fields["code"] for line in lines] == ["ARCHIVE-DAMAGED"]
        assert await _fetch(archive, 2) == ([CHAIN.block(2)], [])


async def test_a_block_of_another_hash_is_no_block_of_that_entry(archive: Path, lines: list[Record]) -> None:
    """Its hash is right, and its number too, but it is on another branch than the archive says."""
    branch = FakeL1Chain(8)
    branch.reorg(6, 6)
    shutil.rmtree(archive / "l1-5" / "numbers")
    body = orjson.dumps({"result": branch.block_json(2)})
    (archive / block_name(5, CHAIN.hash(2))).write_bytes(gzip.compress(body))
    (archive / number_name(5, 2)).parent.mkdir(parents=True)
    (archive / number_name(5, 2)).write_text(to_hex(CHAIN.hash(2)))
    assert await _fetch(archive, 2) == ([CHAIN.block(2)], ["0x2"])
    assert "it is block 0x" in str(lines[0].fields["reason"])


def build_over(folder: Path, config: BlobsConfig, bus: Bus, meter: Meter) -> BlobsStage:
    """Return the blobs stage over an archive."""
    return build_blobs(ArchivedConfig(config, ArchiveFolder(str(folder), -1)), bus, meter)


async def test_blobs_are_kept_with_their_evidence(tmp_path: Path, small_blobs: KnownBlobs) -> None:
    """Evidence of another blob is left out."""
    first, second = small_blobs[:2]
    offered = (OfferedBlob(first.blob, first.commitment, None), OfferedBlob(second.blob, first.commitment, None))
    verified = run(VerifyBlobs((first.hash, second.hash), offered))
    result: dict[bytes, OfferedBlob] = {}
    archive = BlobArchive(str(tmp_path))
    await archive.keep(offered, verified)
    refs = [BlobRef(index, item.hash) for index, item in enumerate(small_blobs[:3])]
    result.update(await archive.read(refs))
    assert result == {first.hash: offered[0], second.hash: OfferedBlob(second.blob, None, None)}


@pytest.mark.parametrize("damage", ["other", "short"])
async def test_what_is_there_is_not_asked_for(tmp_path: Path, small_blobs: KnownBlobs, damage: str) -> None:
    lines: list[Record] = []
    log.configure("blobs", Level.WARN, lines.append)

    async def fetch(*indices: int) -> list[str]:
        beacon = FakeBeacon(small_blobs)
        async with running_blobs([beacon], lambda *config: build_over(tmp_path, *config)) as blobs:
            await blobs.receives(list(indices))
        return beacon.requested

    assert "blobs" in await fetch(0, 1)
    assert await fetch(1, 0) == [] and lines == []
    entry = tmp_path / blob_name(small_blobs[1].hash)
    good = entry.read_bytes()
    entry.write_bytes(small_blobs[2].blob if damage == "other" else good[:-1])
    assert "blobs" in await fetch(0, 1)
    (line,) = lines
    assert line.component == "blobs" and line.fields["code"] == "ARCHIVE-DAMAGED"
    assert line.fields["entry"] == str(entry)
    assert await fetch(0, 1) == []


async def test_an_archive_needs_no_endpoint_for_what_it_has(tmp_path: Path, small_blobs: KnownBlobs) -> None:
    """What it lacks fails like every request without an endpoint [O6]."""
    first = small_blobs[0]
    offered = (OfferedBlob(first.blob, first.commitment, None),)
    await BlobArchive(str(tmp_path)).keep(offered, run(VerifyBlobs((first.hash,), offered)))
    config = BlobsConfig(None)
    async with running_stage("blobs", lambda bus, meter: build_over(tmp_path, config, bus, meter)) as buses:
        client = BlobsClient(buses, small_blobs, Meter("blobs"))
        await client.receives([0])
        client.request([1])
        await until(lambda: client.unavailable)
        assert client.unavailable[-1].error.endswith(f"not in the archive, and {NO_ENDPOINT}")
