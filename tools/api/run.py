"""One derivation: the stages of the node in one event loop, over endpoints or over a folder."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from rollup_node.node.setup.plan import ArchiveFolder, blobs_config, derivation_config, l1_config
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
from rollup_node.stages.protocol.errors import StageError, TemporaryError
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
from rollup_node.tools.api.folders import L2_BLOCKS, FolderKind, kind_of_folder, served_folder
from rollup_node.tools.api.in_process import Build, run_stages
from rollup_node.tools.api.stages import Emit, LibraryDerivationStage, LibraryEngineStage, Outcome
from rollup_node.tools.commands.common import ParsedCommand, check_all, endpoints_of, l2_secret, parse
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.history.l1_view import l1_view
from rollup_node.tools.history.manifest import genesis_resume
from rollup_node.tools.history.start_stage import RangeStartConfig
from rollup_node.tools.inspect.l2_source import SourceError
from rollup_node.tools.inspect.replay_stage import NoProgress, RangeEnded, ReplayConfig, ReplayFailed
from rollup_node.tools.inspect.row_formats import RowFormat

UNBOUNDED = (1 << 63) - 1
FOLDER_SECONDS = 5.0
"""Seconds without progress after which a folder does not have what is missing."""
PLACEHOLDER = "http://127.0.0.1:9"
"""The URL of a folder until it is served."""


class Request(NamedTuple):
    """The arguments of `derive`; `words` choose the chain, `first` is the safe head, `base` the first L1 block."""

    words: tuple[str, str]
    first: int
    last: int | None
    l1: str | None
    beacon: str | None
    l2: str | None
    l2_blocks: str | None
    archive: str | None
    base: int | None
    timeout: float | None
    options: Mapping[str, object]


class DerivationRun:
    """The run that `derive` starts. Its arguments are checked here, at once; what it reads in `main`.

    `outcome` and `last_drops`, what was dropped after the last block, are of the run so far."""

    def __init__(self, request: Request) -> None:
        with input_errors():
            self._command = _command(request)
        rollup = self._command.chain.config
        genesis, last = rollup.genesis.l2.number, request.last
        if request.first < genesis:
            raise RangeError(f"from_l2={request.first} is before the chain's genesis, block {genesis}")
        if last is not None and last <= request.first:
            raise RangeError(f"to_l2={last} is not after from_l2={request.first}")
        flags = self._command.flags
        self._has_source = flags.l2 is not None or flags.l2_blocks is not None
        if not self._has_source and request.first != genesis:
            text = f"without l2 or l2_blocks only from_l2={genesis} is possible, the chain's genesis"
            raise InputError(f"{text}: give an L2 source, which says what block {request.first} is")
        self._request = request
        with input_errors():
            self._secret = l2_secret(self._command)
        self.outcome = Outcome()
        self.last_drops: tuple[Drop, ...] = ()

    async def main(self, emit: Emit) -> None:
        """Derive, and give each block to `emit`. Raises what `error_of` makes an error of the API."""
        forward_logs()
        async with self._sources() as (l1, blobs):
            with input_errors(DataError if self._is_folder else EndpointError):
                endpoints = endpoints_of(self._command, l1, blobs, self._secret)
                await check_all(endpoints, self._seconds)
            await run_stages(CHANNELS, self._stages(l1, blobs, emit))
        self.last_drops, _ = self.outcome.take_drops()
        if self.outcome.failure is not None and not self._is_end(self.outcome.failure):
            raise self.outcome.failure

    def error_of(self, error: BaseException, last: Block | None) -> BaseException:
        """Return the error of the API for what ended `main`; a bug stays what it is."""
        text = with_arguments(str(error))
        if isinstance(error, ReplayFailed) and last is not None and last.differences:
            return BlockDiffers(text, last)
        if isinstance(error, RangeEnded):
            return RangeError(text)
        if isinstance(error, NoProgress | TemporaryError) and not self._is_folder:
            return EndpointError(text)
        if isinstance(error, ReplayFailed | SourceError | UnreadableBlockError | StageError):
            return DataError(text, rule=self.outcome.reset_rule)
        return error

    @property
    def _is_folder(self) -> bool:
        return self._request.l1 is None

    @property
    def _seconds(self) -> float | None:
        """The seconds without progress after which the run fails."""
        seconds = self._request.timeout
        if not self._is_folder:
            return seconds
        return FOLDER_SECONDS if seconds is None else min(seconds, FOLDER_SECONDS)

    def _is_end(self, failure: Exception) -> bool:
        """Whether L1 ends, up to which everything was to be derived."""
        return self._request.last is None and isinstance(failure, RangeEnded)

    @asynccontextmanager
    async def _sources(self) -> AsyncIterator[tuple[L1Config, BlobsConfig]]:
        """Yield the configurations of the processes that read L1."""
        request, command = self._request, self._command
        archive = None
        if request.archive is not None and _is_archive(request):
            archive = ArchiveFolder(request.archive, -1)
        l1 = l1_config(command.values, command.chain, runtime_config=False, inbox_hashes=True, archive=archive)
        blobs = blobs_config(command.values, command.chain, archive)
        if request.l1 is not None:
            if archive is not None:
                with input_errors(EndpointError):
                    last = (await l1_view(l1, command.chain.config.genesis.l1.number)).finalized
                l1 = msgspec.structs.replace(l1, archive_last=last)
            yield l1, blobs
            return
        assert request.archive is not None
        async with served_folder(request.archive, l1) as served:
            yield (
                msgspec.structs.replace(l1, endpoints=(served.l1,)),
                msgspec.structs.replace(blobs, beacon=served.beacon),
            )

    def _stages(self, l1: L1Config, blobs: BlobsConfig, emit: Emit) -> dict[str, Build]:
        derivation = derivation_config(self._command.values, self._command.chain, ahead=0)
        engine, outcome = self._engine_config(), self.outcome
        parents = not self._has_source
        return {
            "l1": partial(l1_stage.build, l1),
            "blobs": partial(blobs_stage.build, blobs),
            "derivation": lambda bus, meter: LibraryDerivationStage(derivation, bus, meter, outcome, parents),
            "compute": partial(compute_stage.build, ComputeConfig()),
            "engine": lambda bus, meter: LibraryEngineStage(engine, bus, meter, outcome, emit),
        }

    def _engine_config(self) -> RangeStartConfig:
        request, command = self._request, self._command
        replay = ReplayConfig(
            rollup=command.chain.config,
            first=request.first,
            last=UNBOUNDED if request.last is None else request.last,
            url=command.flags.l2,
            blocks=command.flags.l2_blocks,
            base=request.base,
            form=RowFormat.JSON,
            output=-1,
            errors=-1,
            timeout=self._seconds,
            jwt_secret=self._secret,
        )
        resume = None if self._has_source else genesis_resume(command.chain.config)
        return RangeStartConfig(replay, 0, 0, request.first, 0, resume)


def _command(request: Request) -> ParsedCommand:
    """Return the command line of these arguments, without the environment. Raises SetupError for what is wrong."""
    parser = FlagParser("derive", "The arguments of rollup_node.derive.")
    parser.add_l2_source()
    words = list(request.words)
    if request.l1 is None and request.archive is None:
        raise SetupError("give l1=URL and beacon=URL, or archive=FOLDER")
    if request.l2 is not None and request.l2_blocks is not None:
        raise SetupError("give one L2 source: either l2 or l2_blocks")
    blocks = request.l2_blocks
    if request.archive is not None and not _is_archive(request):
        recorded = Path(request.archive) / L2_BLOCKS
        if blocks is None and request.l2 is None and recorded.is_file():
            blocks = str(recorded)
    urls: dict[str, object] = {"l1": request.l1 or PLACEHOLDER, "l1.beacon": request.beacon}
    if request.l1 is None:
        urls |= {"l1.beacon": None, "l1.beacon.ignore": True}
    given = {**urls, "l2": request.l2, "l2-blocks": blocks, **request.options}
    words += [f"--{name}={_text(value)}" for name, value in given.items() if value is not None]
    return parse(parser, words, {})


def _is_archive(request: Request) -> bool:
    """Whether the folder is an archive, as each is that is given with endpoints. Raises InputError for no L1 data."""
    return request.l1 is not None or kind_of_folder(request.archive or "") is FolderKind.ARCHIVE


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
