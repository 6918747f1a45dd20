"""One run of the library: the stages of the node in one event loop, over endpoints or over a folder."""

import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rollup_node.node.setup.plan import blobs_config, derivation_config, l1_config
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process import stage as blobs_stage
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.compute.process import stage as compute_stage
from rollup_node.stages.engine.calls.heads import UnreadableBlockError
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process import stage as l1_stage
from rollup_node.stages.messages.derivation import Drop
from rollup_node.stages.messages.log_fields import plain_text
from rollup_node.stages.protocol.errors import SERVER_ERROR, StageError, TemporaryError
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.blocks import Block
from rollup_node.tools.api.errors import (
    BlockDiffers,
    DataError,
    EndpointError,
    InputError,
    RangeError,
    input_errors,
    with_arguments,
)
from rollup_node.tools.api.in_process import Build, run_stages
from rollup_node.tools.api.stages import Emit, LibraryDerivationStage, LibraryEngineStage, LibraryListingStage, Outcome
from rollup_node.tools.commands.common import (
    ParsedCommand,
    check_all,
    check_batches_on_l1,
    endpoints_of,
    l2_secret,
    parse,
)
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application
from rollup_node.tools.history.archive import BlockArchive
from rollup_node.tools.history.archived_stages import ArchivedConfig, ArchiveFolder, build_blobs, build_l1
from rollup_node.tools.history.l1_view import l1_view
from rollup_node.tools.history.manifest import genesis_resume
from rollup_node.tools.history.start_stage import RangeStartConfig
from rollup_node.tools.inspect.batch_summary import BatchSummary
from rollup_node.tools.inspect.l2_source import SourceError
from rollup_node.tools.inspect.listing_stage import ListingConfig
from rollup_node.tools.inspect.replay_stage import NoProgress, RangeEnded, ReplayConfig, ReplayFailed
from rollup_node.tools.inspect.row_formats import RowFormat
from rollup_node.tools.recorded.recording import BLOCKS_FILE, Recording
from rollup_node.tools.recorded.server import serving

LABELS = ("latest", "safe", "finalized")
L2_BLOCKS = "l2_blocks.json"
"""The L2 blocks of a recording."""


class ServedFolder(NamedTuple):
    """The URLs of a folder; there is no Beacon API where blobs are read from the archive itself."""

    l1: str
    beacon: str | None


def has_archive(folder: str) -> bool:
    """Whether a folder has an archive, and not recorded data. Raises InputError for one with neither."""
    path = Path(folder)
    try:
        if is_recording(folder):
            return False
        if any(path.glob("l1-*/numbers")):
            return True
        text = "has neither an archive of `history run --archive` nor recorded L1 data" if path.is_dir() else "is none"
    except (OSError, ValueError) as error:
        text = f"is unreadable: {error}"
    raise InputError(f"archive: the folder {folder} {text}")


def is_recording(folder: str) -> bool:
    """Whether a folder has recorded data."""
    return (Path(folder) / BLOCKS_FILE).is_file()


@asynccontextmanager
async def served_folder(folder: str, config: L1Config) -> AsyncIterator[ServedFolder]:
    """Serve a folder. Raises DataError where it has no block of the chain, or cannot be read."""
    if has_archive(folder):
        chain_id = config.rollups[0].l1_chain_id
        methods = ArchivedL1(folder, chain_id, last_block(Path(folder), chain_id)).methods()
        async with Listener(application(JsonRpc(methods)), 0) as listener:
            yield ServedFolder(listener.url, None)
        return
    try:
        recording = Recording.load(Path(folder))
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError) as error:
        raise DataError(f"archive: the recorded data in {folder} are damaged: {error}") from None
    async with serving(recording, 0, blobs_endpoint=True) as url:
        yield ServedFolder(url, url)


def last_block(folder: Path, chain_id: int) -> int:
    """Return the number of the last L1 block in an archive. Raises DataError where it has none of this chain."""
    numbers = folder / f"l1-{chain_id}" / "numbers"
    for group in sorted(numbers.glob("[0-9]*"), reverse=True):
        names = [path.name for path in group.glob("[0-9]*") if path.name.isdigit()]
        if names:
            return int(max(names))
    others = ", ".join(sorted(path.name.removeprefix("l1-") for path in folder.glob("l1-*"))) or "none"
    raise DataError(f"archive: {folder} has no block of L1 chain {chain_id}, it has those of: {others}")


class ArchivedL1:
    """The heads, all the last block, and headers. Who asks for a whole block did not find it in the archive before."""

    def __init__(self, folder: str, chain_id: int, last: int) -> None:
        self._folder, self._chain_id, self._last = folder, chain_id, last
        self._archive = BlockArchive(folder, chain_id)

    def methods(self) -> dict[str, Any]:
        """Return the method table of the JSON-RPC server."""
        return {
            "eth_chainId": lambda: hex(self._chain_id),
            "eth_blockNumber": lambda: hex(self._last),
            "eth_getBlockByNumber": self.block,
        }

    async def block(self, label: str, full: bool) -> Any:
        """eth_getBlockByNumber. Raises JsonRpcError for a whole block, and one that the archive lacks."""
        number = self._last if label in LABELS else int(label, 16)
        header = None if full else await self._archive.header_json(number)
        if header is None:
            text = f"L1 block {number} is missing in the archive {self._folder}, or damaged there"
            raise JsonRpcError(SERVER_ERROR, text)
        return header


UNBOUNDED = (1 << 63) - 1
FOLDER_SECONDS = 30.0
"""Seconds without progress after which a folder does not have what is missing."""
PLACEHOLDER = "http://127.0.0.1:9"
"""The URL of a folder until it is served."""


class L1Source(NamedTuple):
    """Where L1 is read, by the arguments of `derive`; `words` choose the chain."""

    words: tuple[str, str]
    l1: str | None
    beacon: str | None
    archive: str | None
    timeout: float | None
    options: Mapping[str, object]

    @property
    def is_folder(self) -> bool:
        """Whether there is no endpoint."""
        return self.l1 is None

    @property
    def is_archive(self) -> bool:
        """Whether the folder is an archive. One beside endpoints need have nothing yet.

        Raises InputError for one of no L1 data, and for recorded data beside endpoints."""
        if self.is_folder:
            return has_archive(self.archive or "")
        if is_recording(self.archive or ""):
            raise InputError("give either l1 or the folder of recorded data as archive")
        return True

    @property
    def seconds(self) -> float | None:
        """The seconds without progress after which the run fails."""
        if not self.is_folder:
            return self.timeout
        return FOLDER_SECONDS if self.timeout is None else min(self.timeout, FOLDER_SECONDS)


class _Run:
    """A run of stages. Its arguments are checked here, at once; what it reads in `main`.

    `outcome` and `last_drops`, what was dropped after the last result, are of the run so far."""

    def __init__(self, source: L1Source, **more: object) -> None:
        self._source = source
        with input_errors():
            self._command = _command(source, more)
            self._secret = l2_secret(self._command)
        self.outcome = Outcome()
        self.last_drops: tuple[Drop, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the results lack."""
        return tuple(self.outcome.warnings)

    @property
    def _is_offline(self) -> bool:
        """Whether no endpoint is asked for anything."""
        return self._source.is_folder and self._command.flags.l2 is None

    def _check_l1(self, first: int | None) -> None:
        """Raise RangeError for a first L1 block before the chain's genesis."""
        genesis = self._command.chain.config.genesis.l1.number
        if first is not None and first < genesis:
            raise RangeError(f"from_l1={first} is before the chain's genesis, L1 block {genesis}")

    async def _run(self, stages: Mapping[str, Build]) -> None:
        """Run these stages with those that read L1. Raises what ended them."""
        forward_logs()
        async with self._configs() as (l1, blobs, archive):
            reading: dict[str, Build] = {"l1": partial(l1_stage.build, l1), "blobs": partial(blobs_stage.build, blobs)}
            if archive is not None:
                reading["l1"] = partial(build_l1, ArchivedConfig(l1, archive))
                reading["blobs"] = partial(build_blobs, ArchivedConfig(blobs, archive))
            with input_errors(DataError if self._is_offline else EndpointError):
                endpoints = endpoints_of(self._command, l1, blobs, self._secret)
                await check_all(endpoints, self._source.seconds)
            await run_stages(
                CHANNELS,
                {
                    **reading,
                    "compute": partial(compute_stage.build, ComputeConfig()),
                    **stages,
                },
            )
        self.last_drops, _ = self.outcome.take_drops()
        if self.outcome.failure is not None:
            raise self.outcome.failure

    @asynccontextmanager
    async def _configs(self) -> AsyncIterator[tuple[L1Config, BlobsConfig, ArchiveFolder | None]]:
        """Yield the configurations of the stages that read L1, and their archive."""
        source, command = self._source, self._command
        archive = None
        if source.archive is not None and source.is_archive:
            archive = ArchiveFolder(source.archive, -1)
        l1 = l1_config(command.values, command.chain, runtime_config=False, inbox_hashes=True)
        blobs = blobs_config(command.values)
        if not source.is_folder:
            if archive is not None:
                with input_errors(EndpointError):
                    view = await l1_view(l1, command.chain.config.genesis.l1.number, archive.path)
                archive = archive._replace(last=view.finalized)
            yield l1, blobs, archive
            return
        assert source.archive is not None
        async with served_folder(source.archive, l1) as served:
            yield (
                msgspec.structs.replace(l1, endpoints=(served.l1,)),
                msgspec.structs.replace(blobs, beacon=served.beacon),
                archive,
            )

    def _error(self, error: BaseException) -> BaseException:
        """Return the error of the API for what ended the run; a bug stays what it is."""
        text = with_arguments(str(error))
        if isinstance(error, RangeEnded):
            return RangeError(text)
        if isinstance(error, NoProgress | TemporaryError) and not self._is_offline:
            return EndpointError(text)
        if isinstance(error, ReplayFailed | SourceError | UnreadableBlockError | StageError):
            return DataError(text, rule=self.outcome.reset_rule)
        return error


class DerivationRun(_Run):
    """The run of `derive`: `first` is the safe head, `base` the first L1 block."""

    def __init__(
        self, source: L1Source, first: int, last: int | None, l2: str | None, l2_blocks: str | None, base: int | None
    ) -> None:
        check_numbers(from_l2=first, to_l2=last, from_l1=base)
        if l2 is not None and l2_blocks is not None:
            raise InputError("give one L2 source: either l2 or l2_blocks")
        if source.archive is not None and not source.is_archive and l2_blocks is None and l2 is None:
            recorded = Path(source.archive) / L2_BLOCKS
            l2_blocks = str(recorded) if recorded.is_file() else None
        super().__init__(source, **{"l2": l2, "l2-blocks": l2_blocks})
        genesis = self._command.chain.config.genesis.l2.number
        self._check_l1(base)
        if first < genesis:
            raise RangeError(f"from_l2={first} is before the chain's genesis, block {genesis}")
        if last is not None and last <= first:
            raise RangeError(f"to_l2={last} is not after from_l2={first}")
        self._has_l2 = l2 is not None or l2_blocks is not None
        if not self._has_l2 and first != genesis:
            text = f"without l2 or l2_blocks only from_l2={genesis} is possible, the chain's genesis"
            raise InputError(f"{text}: give an L2 source, which says what block {first} is")
        self._first, self._last, self._base = first, last, base

    async def main(self, emit: Emit) -> None:
        """Derive, and give each block to `emit`. Raises what `error_of` makes an error of the API."""
        derivation = derivation_config(self._command.values, self._command.chain, ahead=0)
        engine, outcome, assumes = self._engine_config(), self.outcome, not self._has_l2
        try:
            await self._run(
                {
                    "derivation": lambda bus, meter: LibraryDerivationStage(derivation, bus, meter, outcome, assumes),
                    "engine": lambda bus, meter: LibraryEngineStage(engine, bus, meter, outcome, emit),
                }
            )
        except RangeEnded:
            # Without an end everything was to be derived up to here.
            if self._last is not None:
                raise

    def error_of(self, error: BaseException, last: Block | None) -> BaseException:
        """Return the error of the API for what ended `main` after the block `last`."""
        if isinstance(error, ReplayFailed) and last is not None and last.differences:
            return BlockDiffers(with_arguments(str(error)), last)
        return self._error(error)

    def _engine_config(self) -> RangeStartConfig:
        command = self._command
        replay = ReplayConfig(
            rollup=command.chain.config,
            first=self._first,
            last=UNBOUNDED if self._last is None else self._last,
            url=command.flags.l2,
            blocks=command.flags.l2_blocks,
            base=self._base,
            form=RowFormat.JSON,
            output=-1,
            errors=-1,
            timeout=self._source.seconds,
            jwt_secret=self._secret,
        )
        resume = None if self._has_l2 else genesis_resume(command.chain.config)
        return RangeStartConfig(replay, 0, 0, self._first, 0, resume)


class ListingRun(_Run):
    """The run of `batches` in L1 blocks `first` to `last`."""

    def __init__(self, source: L1Source, first: int, last: int) -> None:
        check_numbers(from_l1=first, to_l1=last)
        super().__init__(source)
        self._check_l1(first)
        if last < first:
            raise RangeError(f"to_l1={last} is before from_l1={first}")
        with input_errors():
            check_batches_on_l1(self._command)
        self._first, self._last = first, last

    async def main(self, emit: Callable[[BatchSummary], Awaitable[None]]) -> None:
        """Read the range, and give each batch to `emit`. Raises what `error_of` makes an error of the API."""
        config = ListingConfig(
            rollup=self._command.chain.config,
            first=self._first,
            last=self._last,
            batcher=None,
            form=RowFormat.JSON,
            output=-1,
            errors=-1,
            timeout=self._source.seconds,
        )
        await self._run({"derivation": lambda bus, meter: LibraryListingStage(config, bus, meter, self.outcome, emit)})

    def error_of(self, error: BaseException, last: BatchSummary | None) -> BaseException:
        """Return the error of the API for what ended `main`."""
        return self._error(error)


def check_numbers(**numbers: object) -> None:
    """Raise InputError for an argument that is no block number; None is left out."""
    for name, value in numbers.items():
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= UNBOUNDED
        if value is not None and not is_number:
            raise InputError(f"{name}={value!r} is not a block number")


def _command(source: L1Source, more: Mapping[str, object]) -> ParsedCommand:
    """Return the command line of these arguments, without the environment. Raises SetupError for what is wrong."""
    parser = FlagParser("derive", "The arguments of rollup_node.derive.")
    parser.add_l2_source()
    if source.timeout is not None and not (isinstance(source.timeout, int | float) and source.timeout > 0):
        raise SetupError(f"timeout={source.timeout!r} is not a time in seconds above 0")
    if source.l1 is None and source.archive is None:
        raise SetupError("give l1=URL and beacon=URL, or archive=FOLDER")
    if not source.is_folder:
        urls: dict[str, object] = {"l1": source.l1, "l1.beacon": source.beacon}
    else:
        has_archive(source.archive or "")
        urls = {"l1": PLACEHOLDER, "l1.beacon.ignore": True}
    values = {**urls, **more, **source.options}
    words = [f"--{name}={_text(value)}" for name, value in values.items() if value is not None]
    return parse(parser, [*source.words, *words], {}, derives=bool(more))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def forward_logs() -> None:
    """Have the stages log to Python's loggers below `rollup_node`, which are silent unless the program sets them up."""
    logging.getLogger("rollup_node").addHandler(logging.NullHandler())
    log.configure("library", Level.INFO, _forward)


_LEVELS = {Level.ERROR: logging.ERROR, Level.WARN: logging.WARNING, Level.INFO: logging.INFO}


def _forward(record: Record) -> None:
    logger = logging.getLogger(f"rollup_node.{record.component}")
    level = _LEVELS.get(record.level, logging.DEBUG)
    if logger.isEnabledFor(level):
        fields = "".join(f" {name}={plain_text(value)}" for name, value in record.fields.items())
        logger.log(level, "%s%s%s", record.message, fields, f"\n{record.traceback}" if record.traceback else "")
