"""The stages that read L1 and blobs in an archive before they ask an endpoint, and add to it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.blobs.beacon_api import Failed, OfferedBlob, SourceFailure
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.pending_requests import PendingRequest
from rollup_node.stages.blobs.process.client import SourcesFailedError
from rollup_node.stages.blobs.process.stage import NO_ENDPOINT, BlobsStage
from rollup_node.stages.blobs.tasks import BlobsVerified
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.prefetch_window import Fetch
from rollup_node.stages.l1.process.block_fetcher import BlockAnswer, BlockFetcher, FetchResult, ReceiptsOf
from rollup_node.stages.l1.process.client import BehindError
from rollup_node.stages.l1.process.refs_client import RefsReader
from rollup_node.stages.l1.process.stage import L1Stage
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.messages.l1 import L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.answer_limits import ORDINARY_L1_BLOCK, AnswerLimit
from rollup_node.stages.protocol.types import Hash, L1Block
from rollup_node.tools.history.archive import BlobArchive, BlockArchive


class ArchiveFolder(NamedTuple):
    """A folder of L1 data that is read before an endpoint is asked; L1 blocks up to number `last` are kept there."""

    path: str
    last: int


class ArchivedConfig(NamedTuple):
    """The configuration of a stage, and its archive."""

    stage: Any
    folder: ArchiveFolder


class ArchivedBlockFetcher(BlockFetcher):
    """Asks no endpoint for what `archive` has."""

    def __init__(self, archive: BlockArchive, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._archive = archive

    async def _run(self, fetches: Sequence[Fetch]) -> None:
        await super()._run([fetch for fetch in fetches if not await self._read_archive(fetch)])

    async def _read_archive(self, fetch: Fetch) -> bool:
        """Take the block of a fetch from the archive; False if it is not there."""
        try:
            archived = await self._from_archive(fetch)
        except TaskFailed as error:
            self._failed(None, error, fetch)
            return True
        if archived is not None:
            self._end(FetchResult(fetch, archived, None))
        return archived is not None

    async def _from_archive(self, fetch: Fetch) -> tuple[L1Block, ...] | None:
        """Return the block if the archive has it; after a contradiction the endpoints say which is canonical."""
        result = None if fetch.generation else await self._archive.block(fetch.number)
        if result is None:
            return None
        receipts_of = self._archive.receipts_body
        try:
            verified = await super()._verified(ORDINARY_L1_BLOCK, fetch.number, BlockAnswer(result.body), receipts_of)
            if (block_hash := verified[0].header.hash) != result.hash:
                raise InvalidDataError(f"it is block 0x{block_hash.hex()}")
            return verified
        except BehindError:
            return None
        except InvalidDataError as error:
            self._archive.damaged(result.hash, str(error))
            return None

    async def _verified(
        self, limit: AnswerLimit, number: int, answer: BlockAnswer, receipts_of: ReceiptsOf
    ) -> tuple[L1Block, ...]:
        """Keep what an endpoint answered once it is verified, unless it is of another size than most."""
        body, receipts = answer.body, list[bytes | None]()

        async def kept_receipts_of(*arguments: Any) -> bytes | None:
            receipts.append(await receipts_of(*arguments))
            return receipts[-1]

        blocks = await super()._verified(limit, number, answer, kept_receipts_of)
        if limit is ORDINARY_L1_BLOCK:
            await self._archive.keep(blocks[0].header, body, receipts[-1] if receipts else None)
        return blocks


class ArchivedRefsReader(RefsReader):
    """Reads a single reference from `archive`, if that has the block."""

    def __init__(self, archive: BlockArchive, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._archive = archive

    async def _read(self, request: L1RefsRequest) -> L1RefsResponse:
        ref = await self._archive.ref(request.last, self._trust) if request.count <= 1 else None
        return await super()._read(request) if ref is None else L1RefsResponse(request.last, (ref,), None)


class ArchivedL1Stage(L1Stage):
    """The l1 stage over an archive."""

    def __init__(self, config: L1Config, folder: ArchiveFolder, bus: Bus, meter: Meter) -> None:
        archive = BlockArchive(folder.path, config.rollups[0].l1_chain_id, folder.last)
        self.new_fetcher = partial(ArchivedBlockFetcher, archive)
        self.new_refs = partial(ArchivedRefsReader, archive)
        super().__init__(config, bus, meter)


class ArchivedBlobsStage(BlobsStage):
    """The blobs stage over an archive, which needs no endpoint for what that has."""

    def __init__(self, config: BlobsConfig, folder: ArchiveFolder, bus: Bus, meter: Meter) -> None:
        super().__init__(config, bus, meter)
        self._archive = BlobArchive(folder.path)

    async def _fetch_missing(self, pending: PendingRequest) -> None:
        if result := await self._archive.read(pending.missing):
            verified = await super()._verify(tuple(result), tuple(result.values()), pending)
            self._archive.damaged(result.keys() - pending.contents.keys(), verified.problems)
        if pending.missing and not self._endpoints.all:
            raise SourcesFailedError(SourceFailure(Failed.NO_SOURCE, f"not in the archive, and {NO_ENDPOINT}"))
        if pending.missing:
            await super()._fetch_missing(pending)

    async def _verify(
        self, wanted: Sequence[Hash], offered: Sequence[OfferedBlob], pending: PendingRequest
    ) -> BlobsVerified:
        verified = await super()._verify(wanted, offered, pending)
        await self._archive.keep(offered, verified)
        return verified


def build_l1(config: ArchivedConfig, bus: Bus, meter: Meter) -> L1Stage:
    """Build the stage that reads L1."""
    return ArchivedL1Stage(config.stage, config.folder, bus, meter)


def build_blobs(config: ArchivedConfig, bus: Bus, meter: Meter) -> BlobsStage:
    """Build the stage that reads blobs."""
    return ArchivedBlobsStage(config.stage, config.folder, bus, meter)


BUILDS = {"l1": build_l1, "blobs": build_blobs}


def archived(spec: ProcessSpec, folder: ArchiveFolder) -> ProcessSpec:
    """Return a process over an archive, if it reads L1 or blobs."""
    if spec.role not in BUILDS:
        return spec
    build = f"{__name__}:{BUILDS[spec.role].__name__}"
    return replace(spec, build=build, config=ArchivedConfig(spec.config, folder))
