"""L1 data in a folder, without endpoints: an archive of `history`, or recorded data, served on the loopback interface.

So all that the node does with an endpoint holds for a folder too."""

import enum
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.api.errors import DataError, InputError
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application
from rollup_node.tools.history.archive import BlockArchive
from rollup_node.tools.recorded.recording import BLOCKS_FILE, Recording
from rollup_node.tools.recorded.server import serving

LABELS = ("latest", "safe", "finalized")
L2_BLOCKS = "l2_blocks.json"
"""The L2 blocks of a recording."""


class FolderKind(enum.Enum):
    """What a folder has."""

    ARCHIVE = "archive"
    RECORDING = "recording"


class ServedFolder(NamedTuple):
    """The URLs of a folder; there is no Beacon API where blobs are read from the archive itself."""

    l1: str
    beacon: str | None


def kind_of_folder(folder: str) -> FolderKind:
    """Return what a folder has. Raises InputError for one with no L1 data."""
    path = Path(folder)
    try:
        if is_recording(folder):
            return FolderKind.RECORDING
        if any(path.glob("l1-*/numbers")):
            return FolderKind.ARCHIVE
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
    if kind_of_folder(folder) is FolderKind.ARCHIVE:
        chain_id = config.rollups[0].l1_chain_id
        methods = ArchivedL1(folder, chain_id, last_block(Path(folder), chain_id)).methods()
        listener = Listener(application(JsonRpc(methods)), 0)
        await listener.start()
        try:
            yield ServedFolder(listener.url, None)
        finally:
            await listener.stop()
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
