"""What a history needs to know of L1 before its ranges run."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rollup_node.node.options.given_files import regular_file
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.protocol.types import L2BlockContent
from rollup_node.tools.history.archive import BlockArchive

PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds before each further attempt."""
FAILURES = (EndpointError, RpcFailure, KeyError, TypeError, ValueError)


class L1View(NamedTuple):
    """L1's head, the last block that it has finalized (-1 if it does not say), and the history's first time.

    The time is that of the first block, in Unix seconds."""

    head: int
    finalized: int
    time: int


async def l1_view(config: L1Config, first: int, archive: str | None = None) -> L1View:
    """Return the view of the first endpoint; block `first` is read from the folder `archive` if it is there.

    Raises SetupError for an endpoint that fails each time."""
    client = JsonRpcClient(config.endpoints[0])
    try:
        for pause in PAUSES:
            with suppress(*FAILURES):
                return await _view(client, config, first, archive)
            await asyncio.sleep(pause)
        return await _view(client, config, first, archive)
    except (EndpointError, RpcFailure) as error:
        raise SetupError(f"--l1: {error}") from None
    except FAILURES:
        raise SetupError("--l1: unexpected answer to eth_blockNumber or eth_getBlockByNumber") from None
    finally:
        await client.close()


async def _view(client: JsonRpcClient, config: L1Config, first: int, archive: str | None) -> L1View:
    head = int(await client.call("eth_blockNumber"), 16)
    number = min(first, head)
    known = None if archive is None else BlockArchive(archive, config.rollups[0].l1_chain_id)
    ref = None if known is None else await known.ref(number, config.trust_rpc)
    if ref is None:
        block: Any = await client.call("eth_getBlockByNumber", hex(number), False)
        time = int(block["timestamp"], 16)
    else:
        time = ref.timestamp
    return L1View(head, await _finalized(client), time)


async def _finalized(client: JsonRpcClient) -> int:
    try:
        block: Any = await client.call("eth_getBlockByNumber", "finalized", False)
    except RpcFailure:
        return -1
    return -1 if block is None else int(block["number"], 16)


MAX_BLOCKS, MAX_BYTES = 10_000, 64 << 20
"""Blocks, and bytes of their transactions, that are kept."""
MAX_FILE_BYTES = MAX_BYTES + 256 * MAX_BLOCKS + (16 << 20)
"""More than a file of so many blocks and bytes has."""
_DECODER = msgspec.msgpack.Decoder(tuple[L2BlockContent, ...])


class RecentBlocks:
    """Blocks by number, the oldest of which leave when there are too many."""

    def __init__(self, blocks: Iterable[L2BlockContent] = ()) -> None:
        self._blocks: OrderedDict[int, L2BlockContent] = OrderedDict()
        self._bytes = 0
        for block in blocks:
            self.add(block)

    def add(self, block: L2BlockContent) -> None:
        """Add a block, the newest; one of a number that is there stays as it is."""
        if block.ref.number in self._blocks:
            return
        self._blocks[block.ref.number] = block
        self._bytes += _size(block)
        while self._bytes > MAX_BYTES or len(self._blocks) > MAX_BLOCKS:
            _, oldest = self._blocks.popitem(last=False)
            self._bytes -= _size(oldest)

    def get(self, number: int) -> L2BlockContent | None:
        """Return the block of a number."""
        return self._blocks.get(number)

    def write(self, path: Path) -> None:
        """Write the blocks into a file. Raises OSError."""
        path.write_bytes(msgspec.msgpack.encode(tuple(self._blocks.values())))


def read_blocks(path: Path) -> RecentBlocks:
    """Return the blocks of a file. Raises OSError, and ValueError for a file of anything else."""
    with regular_file(path) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES} bytes")
    return RecentBlocks(_DECODER.decode(data))


def _size(block: L2BlockContent) -> int:
    return sum(map(len, block.transactions))
