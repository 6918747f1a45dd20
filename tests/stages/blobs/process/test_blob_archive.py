"""The blobs process with an archive: what is there is asked of nobody, what is damaged is fetched again."""

from pathlib import Path

import pytest

from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process import blob_archive
from rollup_node.stages.blobs.process.blob_archive import BlobArchive
from rollup_node.stages.blobs.process.stage import NO_ENDPOINT, build
from rollup_node.stages.blobs.tasks import VerifyBlobs, run
from rollup_node.stages.io.files.archive import blob_name
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.types import BlobRef
from tests.stages.blobs.process.test_stage import BlobsClient, KnownBlobs, running_blobs
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.fake_beacon import FakeBeacon
from tests.support.timing.conditions import until


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
        async with running_blobs([beacon], archive=str(tmp_path)) as blobs:
            await blobs.receives(list(indices))
        return beacon.requested

    assert "blobs" in await fetch(0, 1)
    assert await fetch(1, 0) == [] and lines == []
    entry = tmp_path / blob_name(small_blobs[1].hash)
    good = entry.read_bytes()
    entry.write_bytes(small_blobs[2].blob if damage == "other" else good[:-1])
    assert "blobs" in await fetch(0, 1)
    (line,) = lines
    assert line.component == blob_archive.log.component and line.fields["code"] == "ARCHIVE-DAMAGED"
    assert line.fields["entry"] == str(entry)
    assert await fetch(0, 1) == []


async def test_an_archive_needs_no_endpoint_for_what_it_has(tmp_path: Path, small_blobs: KnownBlobs) -> None:
    """What it lacks fails like every request without an endpoint [O6]."""
    first = small_blobs[0]
    offered = (OfferedBlob(first.blob, first.commitment, None),)
    await BlobArchive(str(tmp_path)).keep(offered, run(VerifyBlobs((first.hash,), offered)))
    config = BlobsConfig(None, archive=str(tmp_path))
    async with running_stage("blobs", lambda bus, meter: build(config, bus, meter)) as buses:
        client = BlobsClient(buses, small_blobs, Meter("blobs"))
        await client.receives([0])
        client.request([1])
        await until(lambda: client.unavailable)
        assert client.unavailable[-1].error.endswith(f"not in the archive, and {NO_ENDPOINT}")
